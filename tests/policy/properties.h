// Property tests that fail alike everywhere: a fixed seed, and RANDOM_LENGTH times a hundred cases,
// unless RC_PARAMS says otherwise.
#pragma once

#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/random_length.h"

namespace superpipe {

// RapidCheck reads RC_PARAMS at its first property; this runs before main.
inline const bool kSeedIsFixed =
    setenv("RC_PARAMS",
           ("seed=20240601 max_success=" + std::to_string(100 * testing::random_length())).c_str(),
           /*overwrite=*/0) == 0;

}  // namespace superpipe

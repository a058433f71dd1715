// Property tests that fail alike everywhere: a fixed seed, unless RC_PARAMS says otherwise.
#pragma once

#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cstdlib>

namespace superpipe {

// RapidCheck reads RC_PARAMS at its first property; this runs before main.
inline const bool kSeedIsFixed = setenv("RC_PARAMS", "seed=20240601", /*overwrite=*/0) == 0;

}  // namespace superpipe

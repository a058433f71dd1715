// How long tests are that draw their cases at random.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace superpipe::testing {

/// The number in the environment variable `name`, or `otherwise`.
inline std::uint64_t number_from_environment(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

/// By how much to multiply the number of cases that tests draw at random: RANDOM_LENGTH, or 1. A
/// larger one is for the long run of the tests, and for changes of the code that such tests check.
inline std::uint64_t random_length() { return number_from_environment("RANDOM_LENGTH", 1); }

}  // namespace superpipe::testing

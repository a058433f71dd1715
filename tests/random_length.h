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

/// So many times as many cases as by default: RANDOM_LENGTH, or 1. Whoever changes code that such
/// tests check, and the long run of the tests, ask for more than every run of them has time for.
inline std::uint64_t random_length() { return number_from_environment("RANDOM_LENGTH", 1); }

}  // namespace superpipe::testing

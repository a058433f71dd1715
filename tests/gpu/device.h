// The CUDA device as the programs of this folder use it: the driver API, device 0, any failure ends
// the program.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace gpu_test {

/// Ends the program with exit code 1 and one line on stderr unless `result` is success.
void check(CUresult result, const char* what);
#define CHECK(call) ::gpu_test::check((call), #call)

/// Initialises the driver and makes device 0's primary context current on this thread.
void open_device();

/// The kernel of that name in this folder's fat binary. REQUIRES: open_device().
CUfunction kernel(const char* name);

/// The value of --NAME=N or --NAME N among the arguments, `fallback` where it is not there. Ends
/// the program with exit code 2 where it is no whole number.
std::uint64_t number_option(int argc, char** argv, std::string_view name, std::uint64_t fallback);

/// The same for a text.
std::string text_option(int argc, char** argv, std::string_view name, std::string_view fallback);

}  // namespace gpu_test

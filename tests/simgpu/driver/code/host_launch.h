// Runs kernels that simgpu computes on memory of the host.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "tools/simgpu/kernel_plugin.h"

namespace simgpu {

/// The program knows by 9000 what the kernel finds at 1000.
inline const void* program_address_of_copy(const SimgpuLaunch* /*launch*/, const void* address) {
  const auto word = reinterpret_cast<std::uintptr_t>(address);
  return word == 1000 ? reinterpret_cast<const void*>(std::uintptr_t{9000}) : address;
}

/// Runs `kernel`, which `name` has found, with these parameters.
template <typename... Parameters>
void run_on_host(const SimgpuKernel* kernel, const std::string& name, Parameters... parameters) {
  ASSERT_THAT(kernel, ::testing::NotNull()) << name;
  const std::array<void*, sizeof...(Parameters)> arguments{&parameters...};
  const std::array<std::size_t, sizeof...(Parameters)> sizes{sizeof(parameters)...};
  SimgpuLaunch launch{};
  launch.name = name.c_str();
  launch.arguments = arguments.data();
  launch.argument_sizes = sizes.data();
  launch.argument_count = arguments.size();
  launch.program_address = program_address_of_copy;
  kernel->function(&launch);
}

}  // namespace simgpu

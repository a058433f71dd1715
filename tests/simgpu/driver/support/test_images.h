// The images that nvcc made of kernels.cu, and what a reader has to find in them.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdio>
#include <string>
#include <variant>
#include <vector>

#include "tools/simgpu/driver/code/fat_binary.h"
#include "tools/simgpu/driver/code/module_image.h"

namespace simgpu {

/// The bytes of test image `name`; fails the test if it cannot be read.
inline std::vector<std::byte> read_test_image(const std::string& name) {
  const std::string path = std::string(SIMGPU_TEST_IMAGES) + "/" + name;
  std::vector<std::byte> bytes;
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) {
    ADD_FAILURE() << "cannot open " << path;
    return bytes;
  }
  std::byte buffer[4096];
  for (std::size_t got; (got = std::fread(buffer, 1, sizeof(buffer), file)) > 0;) {
    bytes.insert(bytes.end(), buffer, buffer + got);
  }
  std::fclose(file);
  return bytes;
}

/// The decoded image, or an empty one and a failure that says why there is none.
inline ModuleImage expect_image(const ImageResult& result) {
  if (const auto* const refusal = std::get_if<ImageRefusal>(&result)) {
    ADD_FAILURE() << refusal->reason;
    return {};
  }
  return std::get<ModuleImage>(result);
}

/// Why there is no image; a failure if there is one.
inline ImageError expect_refusal(const ImageResult& result) {
  if (const auto* const refusal = std::get_if<ImageRefusal>(&result)) {
    EXPECT_NE(refusal->reason, "");
    return refusal->error;
  }
  ADD_FAILURE() << "the image was accepted";
  return {};
}

inline const KernelImage* find_kernel(const ModuleImage& image, const std::string& name) {
  for (const KernelImage& kernel : image.kernels) {
    if (kernel.name == name) return &kernel;
  }
  return nullptr;
}

/// The parameters of kernel `name`; a failure if there is no such kernel.
inline std::vector<ParameterLayout> parameters_of(const ModuleImage& image,
                                                  const std::string& name) {
  const KernelImage* const kernel = find_kernel(image, name);
  if (kernel == nullptr) {
    ADD_FAILURE() << "no kernel " << name;
    return {};
  }
  return kernel->parameters;
}

/// The initial bytes of variable `name`, zeros included; a failure if there is no such variable.
inline std::vector<std::byte> value_of(const ModuleImage& image, const std::string& name) {
  std::vector<std::byte> data(image.data_bytes);
  for (const InitialData& initial : image.initial) {
    std::copy(initial.bytes.begin(), initial.bytes.end(),
              data.begin() + static_cast<std::ptrdiff_t>(initial.offset));
  }
  for (const GlobalImage& global : image.globals) {
    if (global.name == name) {
      const auto first = data.begin() + static_cast<std::ptrdiff_t>(global.offset);
      return {first, first + static_cast<std::ptrdiff_t>(global.bytes)};
    }
  }
  ADD_FAILURE() << "no variable " << name;
  return {};
}

inline constexpr const char* kCopyName = "_Z4copyIdEvPT_PKS0_m";
inline constexpr const char* kBoundedName = "_Z7boundedPf";

/// Expects the kernels of kernels.cu with the layouts that the C++ ABI gives their parameters.
inline void expect_layouts(const ModuleImage& image) {
  using ::testing::ElementsAre;
  using L = ParameterLayout;
  std::vector<std::string> names;
  for (const KernelImage& kernel : image.kernels) names.push_back(kernel.name);
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("add", "mixed", "nothing", "point_at", "wide",
                                                     kCopyName, kBoundedName));
  EXPECT_THAT(parameters_of(image, "add"), ElementsAre(L{0, 8}, L{8, 8}, L{16, 4}));
  EXPECT_THAT(parameters_of(image, "mixed"),
              ElementsAre(L{0, 1}, L{2, 2}, L{4, 4}, L{8, 8}, L{16, 32}, L{48, 1}, L{56, 8}));
  EXPECT_THAT(parameters_of(image, "nothing"), ElementsAre());
  EXPECT_THAT(parameters_of(image, "point_at"), ElementsAre(L{0, 8}, L{8, 8}));
  EXPECT_THAT(parameters_of(image, "wide"), ElementsAre(L{0, 20000}, L{20000, 8}));
  EXPECT_THAT(parameters_of(image, kCopyName), ElementsAre(L{0, 8}, L{8, 8}, L{16, 8}));
  EXPECT_THAT(parameters_of(image, kBoundedName), ElementsAre(L{0, 8}));
}

template <typename T>
std::vector<T> as(const std::vector<std::byte>& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

/// Expects the variables of kernels.cu with their values.
inline void expect_variables(const ModuleImage& image) {
  using ::testing::ElementsAre;
  EXPECT_THAT(as<int>(value_of(image, "counter")), ElementsAre(7));
  EXPECT_THAT(as<float>(value_of(image, "table")), ElementsAre(1.0F, 2.0F, 3.0F, 4.0F));
  EXPECT_THAT(as<float>(value_of(image, "coefficients")),
              ElementsAre(1.0F, 2.0F, 3.0F, 0.0F, 0.0F, 0.0F, 0.0F, 0.0F));
  const std::vector<float> zeros = as<float>(value_of(image, "zeros"));
  EXPECT_EQ(zeros, std::vector<float>(1000, 0.0F));
}

}  // namespace simgpu

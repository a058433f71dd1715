#include "tools/superpipe/probes/cuda_runtime_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace superpipe::cli {
namespace {

using ::testing::Contains;
using ::testing::Not;

class CudaRuntimeCandidates : public ::testing::Test {
 protected:
  CudaRuntimeCandidates()
      : root_(std::filesystem::path(::testing::TempDir()) /
              ("cudart-" + std::to_string(getpid()))) {}
  ~CudaRuntimeCandidates() override { std::filesystem::remove_all(root_); }

  std::string file(const std::string& name) {
    const auto path = root_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path).put('x');
    return path.string();
  }

  std::filesystem::path root_;
};

TEST_F(CudaRuntimeCandidates, BeginWithWhatTheLoaderFinds) {
  EXPECT_EQ(cuda_runtime_candidates(13).front(), "libcudart.so.13");
  EXPECT_EQ(cuda_runtime_candidates(12).front(), "libcudart.so.12");
}

TEST_F(CudaRuntimeCandidates, AreFoundInCudasFolderAndInPythonsPackages) {
  const std::string toolkit = file("cuda/lib64/libcudart.so.13");
  const std::string wheel =
      file("venv/lib/python3.11/site-packages/nvidia/cu13/lib/libcudart.so.13");
  const std::string older =
      file("venv/lib/python3.11/site-packages/nvidia/cuda_runtime/lib/libcudart.so.12");
  setenv("CUDA_HOME", (root_ / "cuda").c_str(), 1);
  setenv("VIRTUAL_ENV", (root_ / "venv").c_str(), 1);
  const auto found = cuda_runtime_candidates(13);
  EXPECT_THAT(found, Contains(toolkit));
  EXPECT_THAT(found, Contains(wheel));
  EXPECT_THAT(found, Not(Contains(older)));
  EXPECT_THAT(cuda_runtime_candidates(12), Contains(older));
}

TEST_F(CudaRuntimeCandidates, AreFoundOfOtherLibrariesToo) {
  const std::string wheel =
      file("venv/lib/python3.11/site-packages/nvidia/cu13/lib/libcublas.so.13");
  setenv("VIRTUAL_ENV", (root_ / "venv").c_str(), 1);
  EXPECT_THAT(cuda_library_candidates("libcublas.so.13"), Contains(wheel));
  EXPECT_THAT(cuda_runtime_candidates(13), Not(Contains(wheel)));
}

TEST_F(CudaRuntimeCandidates, ThatCannotBeLoadedAreLeftOut) {
  EXPECT_EQ(first_loadable({file("lib/libcudart.so.13"), "/no/such/libcudart.so.13"}), "");
  EXPECT_EQ(first_loadable({file("lib/libcudart.so.13"), "libm.so.6"}), "libm.so.6");
}

}  // namespace
}  // namespace superpipe::cli

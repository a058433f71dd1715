#include "interposer/allocators/framework_environment.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/temporary_folder.h"

namespace superpipe {
namespace {

using ::testing::Optional;

TEST(WithoutExpandableSegments, KeepsAllOtherOptionsAsTheyAre) {
  EXPECT_THAT(
      without_expandable_segments("max_split_size_mb:64,expandable_segments:True,a:[b:1,c:2]"),
      Optional(std::string("max_split_size_mb:64,expandable_segments:False,a:[b:1,c:2]")));
  EXPECT_THAT(without_expandable_segments(" expandable_segments : True "),
              Optional(std::string("expandable_segments:False")));
}

TEST(WithoutExpandableSegments, ChangesNothingWhereThereAreNone) {
  for (const char* const options :
       {"", ",", "expandable_segments:False", "max_split_size_mb:64", "expandable_segments",
        "not_expandable_segments:True", "backend:cudaMallocAsync"}) {
    EXPECT_EQ(without_expandable_segments(options), std::nullopt) << options;
  }
}

TEST(WithoutAsyncBackend, KeepsAllOtherOptions) {
  EXPECT_EQ(without_async_backend("backend:cudaMallocAsync"), "");
  EXPECT_EQ(without_async_backend("max_split_size_mb:64,backend:cudaMallocAsync"),
            "max_split_size_mb:64");
  EXPECT_EQ(without_async_backend("backend:native,a:[b:1,c:2]"), "backend:native,a:[b:1,c:2]");
}

/// PyTorch's variables, as they were again behind the test.
class PytorchAllocatorTest : public ::testing::Test {
 protected:
  PytorchAllocatorTest() { forget(); }
  ~PytorchAllocatorTest() override { forget(); }

  static void forget() {
    for (const char* const name :
         {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "SUPERPIPE_PYTORCH_ALLOC_CONF",
          "SUPERPIPE_ALLOCATOR", "TF_GPU_ALLOCATOR", "TF_FORCE_GPU_ALLOW_GROWTH",
          "XLA_PYTHON_CLIENT_ALLOCATOR", "XLA_PYTHON_CLIENT_PREALLOCATE"}) {
      ::unsetenv(name);
    }
  }
  static std::string value_of(const char* name) {
    const char* const value = std::getenv(name);
    return value == nullptr ? "unset" : value;
  }
};

// As in a program of Python that a shell has started: both have the library.
TEST_F(PytorchAllocatorTest, IsItsOwnAgainWhereAProcessBeforeHadChosenTheOtherOne) {
  ::setenv("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:64", /*overwrite=*/1);
  EXPECT_TRUE(set_framework_allocators());
  EXPECT_TRUE(chose_pytorch_allocator());
  EXPECT_TRUE(chose_pytorch_allocator_at_start());
  EXPECT_TRUE(keep_pytorch_allocator());
  EXPECT_EQ(value_of("PYTORCH_CUDA_ALLOC_CONF"), "max_split_size_mb:64");
  EXPECT_FALSE(chose_pytorch_allocator());
  EXPECT_EQ(value_of("SUPERPIPE_ALLOCATOR"), "native");
  EXPECT_EQ(value_of("TF_GPU_ALLOCATOR"), "cuda_malloc_async");
  forget();
  EXPECT_TRUE(set_framework_allocators());
  EXPECT_TRUE(keep_pytorch_allocator());
  EXPECT_EQ(value_of("PYTORCH_ALLOC_CONF"), "unset");
  EXPECT_EQ(value_of("PYTORCH_CUDA_ALLOC_CONF"), "unset");
}

TEST_F(PytorchAllocatorTest, StaysWhatTheUserChose) {
  ::setenv("PYTORCH_ALLOC_CONF", "backend:cudaMallocAsync", /*overwrite=*/1);
  EXPECT_FALSE(keep_pytorch_allocator());
  EXPECT_EQ(value_of("PYTORCH_ALLOC_CONF"), "backend:cudaMallocAsync");
  EXPECT_EQ(value_of("SUPERPIPE_ALLOCATOR"), "unset");
}

TEST(IsPytorchLoaded, IsSoOnceALibraryOfItIs) {
  EXPECT_FALSE(is_pytorch_loaded());
  const std::filesystem::path folder = make_temporary_folder("is_pytorch_loaded");
  std::filesystem::copy_file(FAKE_INTERPRETER, folder / "libtorch_cuda.so");
  void* const library = ::dlopen((folder / "libtorch_cuda.so").c_str(), RTLD_NOW);
  ASSERT_NE(library, nullptr) << ::dlerror();
  EXPECT_TRUE(is_pytorch_loaded());
  ::dlclose(library);
  EXPECT_FALSE(is_pytorch_loaded());
  std::filesystem::remove_all(folder);
}

TEST(PytorchVersion, IsWhatItsPackageSays) {
  EXPECT_EQ(pytorch_version(), "");
  const std::filesystem::path folder = make_temporary_folder("pytorch_version");
  std::filesystem::create_directory(folder / "lib");
  std::filesystem::copy_file(FAKE_INTERPRETER, folder / "lib" / "libtorch_cuda.so");
  void* const library = ::dlopen((folder / "lib" / "libtorch_cuda.so").c_str(), RTLD_NOW);
  ASSERT_NE(library, nullptr) << ::dlerror();
  EXPECT_EQ(pytorch_version(), "");
  std::ofstream(folder / "version.py") << "from typing import Optional\n"
                                       << "__version__ = '2.11.0+cu130'\ndebug = False\n";
  EXPECT_EQ(pytorch_version(), "2.11.0+cu130");
  std::ofstream(folder / "version.py") << "__version__ = '";
  EXPECT_EQ(pytorch_version(), "");
  ::dlclose(library);
  std::filesystem::remove_all(folder);
}

// A project that lies in a folder of that name is not vLLM.
TEST(IsVllmLoaded, IsSoOnceItsCompiledPartIs) {
  const std::filesystem::path folder = make_temporary_folder("is_vllm_loaded");
  const auto loads = [&](const char* name) {
    const std::filesystem::path file = folder / name;
    std::filesystem::create_directories(file.parent_path());
    std::filesystem::copy_file(FAKE_INTERPRETER, file);
    void* const library = ::dlopen(file.c_str(), RTLD_NOW);
    EXPECT_NE(library, nullptr) << ::dlerror();
    const bool is_loaded = is_vllm_loaded();
    ::dlclose(library);
    return is_loaded;
  };
  EXPECT_TRUE(loads("site-packages/vllm/_C.abi3.so"));
  EXPECT_FALSE(is_vllm_loaded());
  EXPECT_FALSE(loads("vllm/site-packages/torch/_C.abi3.so"));
  EXPECT_FALSE(loads("vllm/other.so"));
  EXPECT_FALSE(loads("notvllm/_C.abi3.so"));
  std::filesystem::remove_all(folder);
}

TEST(WithAsyncBackend, KeepsTheUsersOptions) {
  EXPECT_THAT(with_async_backend(""), Optional(std::string("backend:cudaMallocAsync")));
  EXPECT_THAT(with_async_backend("max_split_size_mb:64, garbage_collection_threshold:0.8"),
              Optional(std::string("max_split_size_mb:64, garbage_collection_threshold:0.8,"
                                   "backend:cudaMallocAsync")));
  EXPECT_THAT(with_async_backend("expandable_segments:False"),
              Optional(std::string("expandable_segments:False,backend:cudaMallocAsync")));
}

TEST(WithAsyncBackend, StandsBehindOneComma) {
  for (const char* const options : {"a:1", "a:1,", "a:1, ", "a:1 ,,"}) {
    EXPECT_THAT(with_async_backend(options), Optional(std::string("a:1,backend:cudaMallocAsync")));
  }
  EXPECT_THAT(with_async_backend(","), Optional(std::string("backend:cudaMallocAsync")));
}

TEST(WithAsyncBackend, LeavesWhatTheUserChose) {
  EXPECT_EQ(with_async_backend("max_split_size_mb:64,backend:native"), std::nullopt);
  EXPECT_EQ(with_async_backend("backend:cudaMallocAsync"), std::nullopt);
  EXPECT_EQ(with_async_backend("a:1, expandable_segments : True"), std::nullopt);
}

TEST(WithoutCommandBuffers, KeepsTheUsersFlags) {
  EXPECT_THAT(without_command_buffers(""),
              Optional(std::string("--xla_gpu_enable_command_buffer=")));
  EXPECT_THAT(without_command_buffers(" --xla_dump_to=/tmp/x "),
              Optional(std::string("--xla_dump_to=/tmp/x --xla_gpu_enable_command_buffer=")));
}

TEST(WithoutCommandBuffers, LeavesWhatTheUserChose) {
  EXPECT_EQ(without_command_buffers("--xla_gpu_enable_command_buffer=FUSION"), std::nullopt);
  EXPECT_EQ(without_command_buffers("/etc/xla.flags"), std::nullopt) << "a file of flags";
}

}  // namespace
}  // namespace superpipe

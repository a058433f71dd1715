#include "tools/superpipe/probes/cublas_library.h"

#include <dlfcn.h>

#include <stdexcept>
#include <vector>

#include "tools/superpipe/probes/cuda_runtime_search.h"

namespace superpipe::cli {
namespace {

// Throws unless a call answered success.
void must_succeed(int status, const char* call) {
  if (status == 0) return;
  throw std::runtime_error(std::string(call) + " answers " + std::to_string(status));
}

std::vector<std::string> places_of(const ProbeSetting& setting, int major) {
  const std::string name = "libcublas.so." + std::to_string(major);
  // NVIDIA's library refuses every driver but NVIDIA's.
  if (setting.simulated) return {setting.parts.simgpu_folder + "/" + name};
  return cuda_library_candidates(name);
}

}  // namespace

CublasLibrary::CublasLibrary(const ProbeSetting& setting) {
  for (const int major : {13, 12}) {
    if (setting.driver_version != 0 && setting.driver_version / 1000 < major) continue;
    path_ = first_loadable(places_of(setting, major));
    if (!path_.empty()) break;
  }
  if (path_.empty()) {
    throw Skipped(
        "no libcublas.so.13 or .12 that this driver serves was found (pip install "
        "nvidia-cublas brings one)");
  }
  library_ = dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) throw Skipped(path_ + " cannot be loaded");
  resolve(create_, "cublasCreate_v2");
  resolve(set_stream_, "cublasSetStream_v2");
  resolve(gemm_, "cublasGemmEx");
  must_succeed(create_(&handle_), "cublasCreate");
}

void CublasLibrary::use_stream(CUstream stream) const {
  must_succeed(set_stream_(handle_, stream), "cublasSetStream");
}

void CublasLibrary::multiply(NumberType type, int m, int n, int k, CUdeviceptr a, CUdeviceptr b,
                             CUdeviceptr c) const {
  constexpr int kAsItIs = 0, kSumsOf32Bits = 68, kDefaultAlgorithm = -1;
  constexpr float kOne = 1, kZero = 0;
  const int number = static_cast<int>(type);
  must_succeed(gemm_(handle_, kAsItIs, kAsItIs, m, n, k, &kOne, a, number, m, b, number, k, &kZero,
                     c, number, m, kSumsOf32Bits, kDefaultAlgorithm),
               "cublasGemmEx");
}

template <typename Pointer>
void CublasLibrary::resolve(Pointer& pointer, const char* name) const {
  pointer = reinterpret_cast<Pointer>(dlsym(library_, name));
  if (pointer == nullptr) throw Skipped(path_ + " has no " + name);
}

}  // namespace superpipe::cli

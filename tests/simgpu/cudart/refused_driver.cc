// Checks what the runtime library says about a driver that it cannot use: refused_driver ERROR,
// where ERROR is the name of the cudaError expected. Also checks that the library resolves the
// driver through cuGetProcAddress alone.

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstring>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: refused_driver ERROR\n");
    return 2;
  }
  int failures = 0;
  const auto expect = [&](bool holds, const char* what) {
    if (!holds) {
      std::fprintf(stderr, "refused_driver: %s\n", what);
      ++failures;
    }
  };
  int count = 7;
  const cudaError_t counted = cudaGetDeviceCount(&count);
  std::printf("cudaGetDeviceCount: %s\n", cudaGetErrorName(counted));
  expect(std::strcmp(cudaGetErrorName(counted), argv[1]) == 0, "cudaGetDeviceCount: other error");
  expect(count == 0, "devices are reported without a usable driver");
  expect(cudaGetLastError() == counted, "the error is not the last error");
  void* pointer = &count;
  expect(cudaMalloc(&pointer, 64) == counted, "cudaMalloc: other error");
  expect(pointer == &count, "a failed cudaMalloc wrote its output");
  int version = 7;
  expect(cudaDriverGetVersion(&version) == cudaSuccess && version == 0,
         "cudaDriverGetVersion is not 0 without a usable driver");
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  expect(driver != nullptr, "the driver was not opened by its SONAME");
  const auto queries =
      driver == nullptr
          ? nullptr
          : reinterpret_cast<void (*)(int*, int*)>(dlsym(driver, "fake_driver_queries"));
  if (queries != nullptr) {
    int first = 0;
    int later = 0;
    queries(&first, &later);
    expect(first == 1, "dlsym's cuGetProcAddress is asked for more than its successor");
    expect(later > 100, "the driver is not resolved through cuGetProcAddress");
  }
  return failures == 0 ? 0 : 1;
}

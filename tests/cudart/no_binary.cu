// Built for a GPU that simgpu is not: the launch must say so and must not run.

#include <cstdio>

__global__ void touch(int* out) { out[0] = 1; }

int main() {
  int* memory = nullptr;
  if (cudaMalloc(&memory, 256) != cudaSuccess) return 1;
  touch<<<1, 1>>>(memory);
  const cudaError_t error = cudaGetLastError();
  std::printf("launch: %s\n", cudaGetErrorName(error));
  return error == cudaErrorNoKernelImageForDevice ? 0 : 1;
}

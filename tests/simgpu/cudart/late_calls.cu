// Calls the runtime from a static destructor, after the driver may be gone: must neither crash nor
// hang.

#include <cstdio>
#include <cstdlib>

__global__ void fill(int* out) { out[threadIdx.x] = 1; }

struct Holder {
  int* memory = nullptr;
  ~Holder() {
    const cudaError_t freed = cudaFree(memory);
    fill<<<1, 1>>>(memory);
    int count = 0;
    static_cast<void>(cudaGetDeviceCount(&count));
    if (freed != cudaSuccess && freed != cudaErrorCudartUnloading) {
      std::fprintf(stderr, "late_calls: cudaFree at exit: %s\n", cudaGetErrorName(freed));
      std::_Exit(1);
    }
  }
};

// Constructed before the first call, so destroyed after what that call set up.
Holder holder;

int main() {
  if (cudaMalloc(&holder.memory, 1 << 20) != cudaSuccess) return 1;
  fill<<<1, 32>>>(holder.memory);
  return cudaDeviceSynchronize() == cudaSuccess ? 0 : 1;
}

// The program of every introduction to CUDA, built and linked by nvcc alone.

#include <cstdio>
#include <vector>

namespace cudart_test {

__global__ void vector_add(const float* a, const float* b, float* out, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) out[i] = a[i] + b[i];
}

}  // namespace cudart_test

int main() {
  constexpr int kCount = 10000;
  constexpr size_t kBytes = kCount * sizeof(float);
  std::vector<float> a(kCount), b(kCount), sum(kCount);
  for (int i = 0; i < kCount; ++i) {
    a[i] = static_cast<float>(i);
    b[i] = static_cast<float>(2 * i + 1);
  }
  float *device_a, *device_b, *device_sum;
  cudaMalloc(&device_a, kBytes);
  cudaMalloc(&device_b, kBytes);
  cudaMalloc(&device_sum, kBytes);
  cudaMemcpy(device_a, a.data(), kBytes, cudaMemcpyHostToDevice);
  cudaMemcpy(device_b, b.data(), kBytes, cudaMemcpyHostToDevice);
  cudart_test::vector_add<<<(kCount + 255) / 256, 256>>>(device_a, device_b, device_sum, kCount);
  cudaMemcpy(sum.data(), device_sum, kBytes, cudaMemcpyDeviceToHost);
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
    std::fprintf(stderr, "vector_add: %s\n", cudaGetErrorString(error));
    return 1;
  }
  for (int i = 0; i < kCount; ++i) {
    if (sum[i] != a[i] + b[i]) {
      std::fprintf(stderr, "vector_add: element %d is %g, not %g\n", i, sum[i], a[i] + b[i]);
      return 1;
    }
  }
  std::printf("%d sums are right\n", kCount);
  return 0;
}

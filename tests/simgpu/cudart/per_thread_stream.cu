// Compiled with --default-stream per-thread: stream 0 is each thread's own, and does not wait for
// the legacy stream.

#include <cstdio>
#include <thread>

__global__ void touch(int* out) { out[0] = 1; }

namespace {

int failures = 0;

void expect(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "per_thread_stream: %s: %s\n", what, cudaGetErrorName(error));
  ++failures;
}

void work() {
  int* memory = nullptr;
  int host[4] = {1, 2, 3, 4};
  int back[4] = {};
  expect(cudaMalloc(&memory, sizeof(host)), "cudaMalloc");
  expect(cudaMemcpyAsync(memory, host, sizeof(host), cudaMemcpyHostToDevice, 0), "cudaMemcpyAsync");
  touch<<<1, 1>>>(memory);
  expect(cudaGetLastError(), "launch");
  expect(cudaMemcpy(memory, host, sizeof(host), cudaMemcpyHostToDevice), "cudaMemcpy");
  expect(cudaMemset(memory, 0, sizeof(int)), "cudaMemset");
  expect(cudaMemcpyAsync(back, memory, sizeof(back), cudaMemcpyDeviceToHost, 0), "cudaMemcpyAsync");
  expect(cudaStreamSynchronize(0), "cudaStreamSynchronize");
  if (back[0] != 0 || back[1] != 2 || back[3] != 4) {
    std::fprintf(stderr, "per_thread_stream: the copies came back wrong\n");
    ++failures;
  }
  expect(cudaFree(memory), "cudaFree");
}

}  // namespace

int main() {
  unsigned long long here = 0;
  unsigned long long there = 0;
  expect(cudaStreamGetId(0, &here), "cudaStreamGetId");
  std::thread other([&] {
    expect(cudaStreamGetId(0, &there), "cudaStreamGetId");
    work();
  });
  other.join();
  work();
  if (here == there) {
    std::fprintf(stderr, "per_thread_stream: two threads share stream 0\n");
    ++failures;
  }
  return failures == 0 ? 0 : 1;
}

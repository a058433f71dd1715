// What cuMemSetAccess takes beside copies both ways, by the priority of the copies' streams and the
// size of the copies.
#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>
#define CK(x)                                        \
  do {                                               \
    int r = (int)(x);                                \
    if (r) {                                         \
      printf("%s -> %d line %d\n", #x, r, __LINE__); \
    }                                                \
  } while (0)
static double us() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}
static std::string q(std::vector<double> v) {
  if (v.empty()) return "-";
  std::sort(v.begin(), v.end());
  char b[100];
  snprintf(b, 100, "%.0f/%.0f/%.0f", v[v.size() / 2], v[v.size() * 9 / 10], v.back());
  return b;
}
__global__ void rw(float4* d, size_t n) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
       i += (size_t)gridDim.x * blockDim.x) {
    float4 v = d[i];
    v.x += 1;
    d[i] = v;
  }
}
int main() {
  CK(cudaSetDevice(0));
  CK(cudaFree(0));
  CUmemAllocationProp prop{};
  CUmemAccessDesc acc{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  acc.location = prop.location;
  acc.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  char *big, *host;
  CK(cudaMalloc(&big, 1 << 30));
  CK(cudaMallocHost(&host, 512 << 20));
  int lo, hi;
  CK(cudaDeviceGetStreamPriorityRange(&lo, &hi));
  printf("priorities %d to %d\n", lo, hi);
  const size_t P = 16 << 20;
  const int N = 24;
  CUdeviceptr va;
  CK(cuMemAddressReserve(&va, P * N, 0, 0, 0));
  std::vector<CUmemGenericAllocationHandle> h(N);
  for (auto& x : h) CK(cuMemCreate(&x, P, &prop, 0));
  for (int prio : {lo, hi})
    for (size_t chunk : {2u << 20, 16u << 20, 128u << 20})
      for (int depth : {1, 2, 8})
        for (int ways : {1, 2, 3}) {
          cudaStream_t st, st2;
          CK(cudaStreamCreateWithPriority(&st, cudaStreamNonBlocking, prio));
          CK(cudaStreamCreateWithPriority(&st2, cudaStreamNonBlocking, prio));
          std::atomic<bool> stop{false};
          size_t moved[2] = {0, 0};
          auto pump = [&](bool in) {
            CK(cudaSetDevice(0));
            std::vector<cudaEvent_t> ev(depth);
            for (auto& e : ev) CK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
            int i = 0;
            bool first = true;
            auto s = in ? st : st2;
            while (!stop) {
              if (!first || i) CK(cudaEventSynchronize(ev[i % depth]));
              if (in)
                CK(cudaMemcpyAsync(big + (i % 2) * chunk, host, chunk, cudaMemcpyHostToDevice, s));
              else
                CK(cudaMemcpyAsync(host + (256 << 20), big + (512 << 20), chunk,
                                   cudaMemcpyDeviceToHost, s));
              CK(cudaEventRecord(ev[i % depth], s));
              moved[!in] += chunk;
              if (++i == depth) first = false;
            }
            CK(cudaStreamSynchronize(s));
          };
          std::vector<std::thread> t;
          if (ways & 1) t.emplace_back(pump, true);
          if (ways & 2) t.emplace_back(pump, false);
          std::this_thread::sleep_for(std::chrono::milliseconds(3));
          double b = us();
          std::vector<double> s, u;
          for (int i = 0; i < N && us() - b < 60e3; i++) {
            CK(cuMemMap(va + i * P, P, 0, h[i], 0));
            double a = us();
            CK(cuMemSetAccess(va + i * P, P, &acc, 1));
            s.push_back(us() - a);
            a = us();
            CK(cuMemUnmap(va + i * P, P));
            u.push_back(us() - a);
          }
          double e = us();
          stop = true;
          for (auto& x : t) x.join();
          printf(
              "prio %2d, copies of %3zu MiB, %d deep, %s: set access %s us, unmap %s us; h2d %.0f "
              "d2h %.0f GB/s\n",
              prio, chunk >> 20, depth,
              ways == 1   ? "in"
              : ways == 2 ? "out"
                          : "both",
              q(s).c_str(), q(u).c_str(), moved[0] / (e - b + 3000) / 1e3,
              moved[1] / (e - b + 3000) / 1e3);
          fflush(stdout);
          CK(cudaStreamDestroy(st));
          CK(cudaStreamDestroy(st2));
        }
  return 0;
}

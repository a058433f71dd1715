// map/set_access/unmap beside loads, and several pieces in one call.
#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
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
__global__ void spin(long long ns) {
  long long t0, t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t0));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  } while (t - t0 < ns);
}
__global__ void stream_rw(float4* d, size_t n, long long ns) {
  long long t0, t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t0));
  do {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += (size_t)gridDim.x * blockDim.x) {
      float4 v = d[i];
      v.x += 1;
      d[i] = v;
    }
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  } while (t - t0 < ns);
}
__global__ void poll_host(volatile unsigned* h, long long ns) {
  long long t0, t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t0));
  unsigned s = 0;
  do {
    s += *h;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  } while (t - t0 < ns && s != 77);
}
static std::string q(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  char b[100];
  snprintf(b, 100, "%.1f/%.1f/%.1f", v[v.size() / 2], v[v.size() * 9 / 10], v.back());
  return b;
}
static CUmemAllocationProp prop{};
static CUmemAccessDesc acc{};
static void measure(const char* name) {
  const size_t P = 2 << 20;
  const int N = 48;
  CUdeviceptr va;
  CK(cuMemAddressReserve(&va, P * N, 0, 0, 0));
  std::vector<CUmemGenericAllocationHandle> h(N);
  for (auto& x : h) CK(cuMemCreate(&x, P, &prop, 0));
  std::vector<double> m, s, u;
  for (int i = 0; i < N; i++) {
    double a = us();
    CK(cuMemMap(va + i * P, P, 0, h[i], 0));
    double b = us();
    CK(cuMemSetAccess(va + i * P, P, &acc, 1));
    double c = us();
    m.push_back(b - a);
    s.push_back(c - b);
  }
  for (int i = 0; i < N; i++) {
    double a = us();
    CK(cuMemUnmap(va + i * P, P));
    u.push_back(us() - a);
  }
  std::vector<double> s8, u8, m8;
  for (int i = 0; i < N; i += 8) {
    double z = us();
    for (int k = i; k < i + 8; k++) CK(cuMemMap(va + k * P, P, 0, h[k], 0));
    double a = us();
    CK(cuMemSetAccess(va + i * P, 8 * P, &acc, 1));
    s8.push_back(us() - a);
    m8.push_back(a - z);
  }
  for (int i = 0; i < N; i += 8) {
    double a = us();
    CK(cuMemUnmap(va + i * P, 8 * P));
    u8.push_back(us() - a);
  }
  printf("%-34s map %s set %s unmap %s | 8 at once: map %s set %s unmap %s\n", name, q(m).c_str(),
         q(s).c_str(), q(u).c_str(), q(m8).c_str(), q(s8).c_str(), q(u8).c_str());
  fflush(stdout);
  for (auto x : h) CK(cuMemRelease(x));
  CK(cuMemAddressFree(va, P * N));
}
int main() {
  CK(cudaSetDevice(0));
  CK(cudaFree(0));
  CUdevice dev;
  CK(cuDeviceGet(&dev, 0));
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = 0;
  acc.location = prop.location;
  acc.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  cudaStream_t st, st2;
  CK(cudaStreamCreateWithFlags(&st, cudaStreamNonBlocking));
  CK(cudaStreamCreateWithFlags(&st2, cudaStreamNonBlocking));
  float4* big;
  size_t bytes = 2ull << 30;
  CK(cudaMalloc(&big, bytes));
  CK(cudaMemset(big, 0, bytes));
  char* host;
  CK(cudaMallocHost(&host, 256 << 20));
  unsigned* flag;
  CK(cudaHostAlloc(&flag, 4096, cudaHostAllocMapped));
  *flag = 0;
  spin<<<1, 1, 0, st>>>(1000);
  stream_rw<<<1, 32, 0, st>>>(big, 32, 1000);
  poll_host<<<1, 1, 0, st>>>(flag, 1000);
  CK(cudaStreamSynchronize(st));
  measure("warm");
  measure("idle");
  long long L = 300'000'000;
  auto with = [&](const char* n, auto f) {
    f();
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    double a = us();
    measure(n);
    bool still = cudaStreamQuery(st) == cudaErrorNotReady;
    printf("    took %.0f us, load still ran: %d\n", us() - a, still);
    CK(cudaStreamSynchronize(st));
  };
  with("spin 1 block", [&] { spin<<<1, 32, 0, st>>>(L); });
  with("spin full grid", [&] { spin<<<132 * 4, 512, 0, st>>>(L); });
  with("rw in L2 (8 MB) full grid",
       [&] { stream_rw<<<132 * 8, 256, 0, st>>>(big, (8 << 20) / 16, L); });
  with("rw DRAM 2 GB full grid", [&] { stream_rw<<<132 * 8, 256, 0, st>>>(big, bytes / 16, L); });
  with("short rw kernels of 256 MB", [&] {
    for (int i = 0; i < 900; i++)
      stream_rw<<<132 * 8, 256, 0, st>>>(big + (size_t)(i % 8) * (bytes / 128), bytes / 128, 1);
  });
  with("poll host, 1 thread", [&] { poll_host<<<1, 1, 0, st>>>(flag, L); });
  with("poll host, full grid", [&] { poll_host<<<132 * 4, 512, 0, st>>>(flag, L); });
  with("h2d copies", [&] {
    for (int i = 0; i < 60; i++)
      CK(cudaMemcpyAsync(big, host, 256 << 20, cudaMemcpyHostToDevice, st));
  });
  with("h2d and d2h and rw kernels", [&] {
    for (int i = 0; i < 60; i++) {
      CK(cudaMemcpyAsync(big, host, 128 << 20, cudaMemcpyHostToDevice, st));
      CK(cudaMemcpyAsync(host + (128 << 20), big, 128 << 20, cudaMemcpyDeviceToHost, st2));
    }
  });
  // latency of an event: kernel of 1 us, record, then poll or synchronize
  cudaEvent_t e, eb;
  CK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
  CK(cudaEventCreateWithFlags(&eb, cudaEventDisableTiming | cudaEventBlockingSync));
  std::vector<double> p, sy, bl, cp;
  for (int i = 0; i < 100; i++) {
    double a = us();
    spin<<<1, 1, 0, st>>>(100);
    CK(cudaEventRecord(e, st));
    while (cudaEventQuery(e) == cudaErrorNotReady) {
    }
    p.push_back(us() - a);
    a = us();
    spin<<<1, 1, 0, st>>>(100);
    CK(cudaEventRecord(e, st));
    CK(cudaEventSynchronize(e));
    sy.push_back(us() - a);
    a = us();
    spin<<<1, 1, 0, st>>>(100);
    CK(cudaEventRecord(eb, st));
    CK(cudaEventSynchronize(eb));
    bl.push_back(us() - a);
    a = us();
    CK(cudaMemcpyAsync(big, host, 2 << 20, cudaMemcpyHostToDevice, st));
    CK(cudaEventRecord(e, st));
    while (cudaEventQuery(e) == cudaErrorNotReady) {
    }
    cp.push_back(us() - a);
  }
  printf("empty kernel and event: query %s, synchronize %s, blocking %s; copy of 2 MiB %s\n",
         q(p).c_str(), q(sy).c_str(), q(bl).c_str(), q(cp).c_str());
  // several threads touching host memory
  for (int t : {1, 2, 4, 8}) {
    size_t n = 1ull << 30;
    char* m = (char*)aligned_alloc(2 << 20, n);
    std::vector<std::thread> th;
    double a = us();
    for (int k = 0; k < t; k++)
      th.emplace_back([=] {
        for (size_t i = n / t * k; i < n / t * (k + 1); i += 4096) m[i] = 1;
      });
    for (auto& x : th) x.join();
    double b = us();
    CK(cuMemHostRegister(m, n, CU_MEMHOSTREGISTER_PORTABLE));
    double c = us();
    printf("touch 1 GiB with %d threads: %.1f GB/s, pin %.1f GB/s\n", t, n / (b - a) / 1e3,
           n / (c - b) / 1e3);
    CK(cuMemHostUnregister(m));
    free(m);
  }
  // demand behind pieces, streams of other priority
  int lo, hi;
  CK(cudaDeviceGetStreamPriorityRange(&lo, &hi));
  cudaStream_t sl, sh;
  CK(cudaStreamCreateWithPriority(&sl, cudaStreamNonBlocking, lo));
  CK(cudaStreamCreateWithPriority(&sh, cudaStreamNonBlocking, hi));
  for (auto [a, b, n] :
       {std::tuple{st, st2, "same priority"}, std::tuple{sl, sh, "high behind low"}}) {
    std::vector<double> v;
    for (int i = 0; i < 20; i++) {
      for (int k = 0; k < 8; k++)
        CK(cudaMemcpyAsync((char*)big + (k << 23), host + (k << 23), 8 << 20,
                           cudaMemcpyHostToDevice, a));
      double t = us();
      CK(cudaMemcpyAsync((char*)big + (1 << 30), host, 2 << 20, cudaMemcpyHostToDevice, b));
      CK(cudaStreamSynchronize(b));
      v.push_back(us() - t);
      CK(cudaStreamSynchronize(a));
    }
    printf("2 MiB behind eight of 8 MiB, %s: %s us\n", n, q(v).c_str());
  }
  return 0;
}

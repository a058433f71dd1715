// What cuMemSetAccess takes beside copies to the host that are queued in different ways, and what
// launches on other threads take meanwhile.
#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
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
__global__ void nothing() {}
__global__ void spin(long long cycles) {
  long long b = clock64();
  while (clock64() - b < cycles) {
  }
}
__global__ void touch(volatile int* p) { *p = 1; }
__global__ void out(const uint4* d, uint4* h, size_t n) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
       i += (size_t)gridDim.x * blockDim.x)
    h[i] = d[i];
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
  const size_t P = 16 << 20;
  const int N = 24;
  CUdeviceptr va;
  CK(cuMemAddressReserve(&va, P * N, 0, 0, 0));
  std::vector<CUmemGenericAllocationHandle> h(N);
  for (auto& x : h) CK(cuMemCreate(&x, P, &prop, 0));
  enum Way {
    kPlain,
    kMemset,
    kOnDevice,
    kToDevice,
    kMemset2D,
    kBarrier,
    kFlush,
    kTimed,
    kOnDevice2D,
    kFromHostWord,
    kToHostWord,
    kOnDeviceBig,
    kMemsetBig
  };
  const char* names[] = {"one stream",
                         "a memset between",
                         "a copy on the device between",
                         "a copy to the device between",
                         "a 2D memset between",
                         "a barrier between",
                         "a flush between",
                         "an event with time between",
                         "a 2D copy on the device between",
                         "a value waited for on the host between",
                         "a word to the host between",
                         "a copy of 64 KiB on the device between",
                         "a memset of 64 KiB between"};
  for (int load : {0, 1, 2})
    for (int way = kPlain; way <= kMemsetBig; way++)
      for (size_t chunk : {2u << 20, 4u << 20}) {
        if (load > 0 && (chunk == 2u << 20)) continue;
        const bool in = load == 1;
        const int depth = 8;
        cudaStream_t s[4];
        for (auto& x : s) CK(cudaStreamCreateWithFlags(&x, cudaStreamNonBlocking));
        std::atomic<bool> stop{false};
        size_t moved[2] = {0, 0};
        std::vector<double> submit;
        bool failed = false;
        memset(host, 0, 8192);
        auto pump_in = [&] {
          CK(cudaSetDevice(0));
          cudaEvent_t ev[2];
          for (auto& e : ev) CK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
          cudaStream_t st;
          CK(cudaStreamCreateWithFlags(&st, cudaStreamNonBlocking));
          for (int i = 0; !stop; i++) {
            if (i > 1) CK(cudaEventSynchronize(ev[i % 2]));
            CK(cudaMemcpyAsync(big + (i % 2) * P, host, P, cudaMemcpyHostToDevice, st));
            CK(cudaEventRecord(ev[i % 2], st));
            moved[0] += P;
          }
          CK(cudaStreamSynchronize(st));
        };
        auto pump_out = [&] {
          CK(cudaSetDevice(0));
          std::vector<cudaEvent_t> ev(depth);
          for (auto& e : ev) CK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
          cudaEvent_t extra;
          CK(cudaEventCreate(&extra));
          CUdeviceptr flag = (CUdeviceptr)(big + (1 << 30) - 4096);
          for (int i = 0; !stop; i++) {
            if (i >= depth) CK(cudaEventSynchronize(ev[i % depth]));
            const double a = us();
            cudaStream_t st = s[0];
            char* to = host + (256 << 20) + (i % 8) * P;
            char* from = big + (512 << 20) + (i % 8) * P;
            CK(cudaMemcpyAsync(to, from, chunk, cudaMemcpyDeviceToHost, st));
            CK(cudaEventRecord(ev[i % depth], st));
            if (way == kMemset) CK(cudaMemsetAsync((void*)flag, 0, 4, st));
            if (way == kMemsetBig) CK(cudaMemsetAsync((void*)(flag - (1 << 20)), 0, 65536, st));
            if (way == kMemset2D) CK(cudaMemset2DAsync((void*)flag, 512, 0, 4, 2, st));
            if (way == kOnDevice)
              CK(cudaMemcpyAsync((void*)flag, (void*)(flag + 256), 4, cudaMemcpyDeviceToDevice,
                                 st));
            if (way == kOnDeviceBig)
              CK(cudaMemcpyAsync((void*)(flag - (2 << 20)), (void*)(flag - (1 << 20)), 65536,
                                 cudaMemcpyDeviceToDevice, st));
            if (way == kOnDevice2D)
              CK(cudaMemcpy2DAsync((void*)flag, 512, (void*)(flag + 256), 512, 4, 2,
                                   cudaMemcpyDeviceToDevice, st));
            if (way == kToDevice)
              CK(cudaMemcpyAsync((void*)flag, host, 4, cudaMemcpyHostToDevice, st));
            if (way == kToHostWord)
              CK(cudaMemcpyAsync(host, (void*)flag, 4, cudaMemcpyDeviceToHost, st));
            if (way == kTimed) CK(cudaEventRecord(extra, st));
            if (way == kBarrier || way == kFlush || way == kFromHostWord) {
              CUstreamBatchMemOpParams op{};
              if (way == kBarrier) {
                op.operation = CU_STREAM_MEM_OP_BARRIER;
                op.memoryBarrier.flags = CU_STREAM_MEMORY_BARRIER_TYPE_SYS;
              } else if (way == kFlush) {
                op.operation = CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES;
              } else {
                op.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
                op.waitValue.address = (CUdeviceptr)(host + 4096);
                op.waitValue.value = 0;
                op.waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
              }
              if (!failed) {
                int r = cuStreamBatchMemOp(st, 1, &op, 0);
                if (r) {
                  failed = true;
                  printf("batch op: %d\n", r);
                }
              }
            }
            submit.push_back(us() - a);
            moved[1] += chunk;
          }
          CK(cudaDeviceSynchronize());
        };
        std::vector<double> launches;
        auto launch = [&] {
          CK(cudaSetDevice(0));
          cudaStream_t st;
          CK(cudaStreamCreateWithFlags(&st, cudaStreamNonBlocking));
          for (int i = 0; !stop; i++) {
            const double a = us();
            nothing<<<1, 1, 0, st>>>();
            launches.push_back(us() - a);
            std::this_thread::sleep_for(std::chrono::microseconds(20));
          }
          CK(cudaStreamSynchronize(st));
        };
        std::vector<std::thread> t;
        t.emplace_back(pump_out);
        if (in) t.emplace_back(pump_in);
        t.emplace_back(launch);
        std::this_thread::sleep_for(std::chrono::milliseconds(3));
        cudaStream_t busy;
        CK(cudaStreamCreateWithFlags(&busy, cudaStreamNonBlocking));
        double b = us();
        size_t before = moved[1];
        if (load == 2) spin<<<132 * 2, 1024, 0, busy>>>(50000000LL);
        std::vector<double> sa, u, m;
        for (int i = 0; i < 2 * N && us() - b < 40e3; i++) {
          double a = us();
          CK(cuMemMap(va + i % N * P, P, 0, h[i % N], 0));
          m.push_back(us() - a);
          a = us();
          CK(cuMemSetAccess(va + i % N * P, P, &acc, 1));
          sa.push_back(us() - a);
          a = us();
          CK(cuMemUnmap(va + i % N * P, P));
          u.push_back(us() - a);
        }
        double e = us();
        double rate = (moved[1] - before) / (e - b) / 1e3;
        stop = true;
        for (auto& x : t) x.join();
        printf(
            "%s, %2zu MiB%s: set access %s us, map %s, unmap %s; launch %s; submit %s; h2d %.0f "
            "d2h %.0f GB/s\n",
            names[way], chunk >> 20,
            load == 1   ? ", and copies in"
            : load == 2 ? ", beside a kernel that fills the device"
                        : "",
            q(sa).c_str(), q(m).c_str(), q(u).c_str(), q(launches).c_str(), q(submit).c_str(),
            moved[0] / (e - b + 3000) / 1e3, moved[1] / (e - b + 3000) / 1e3);
        fflush(stdout);
        if (load == 2) printf("   beside it %.0f GB/s in %.1f ms\n", rate, (e - b) / 1e3);
        CK(cudaStreamDestroy(busy));
        for (auto& x : s) CK(cudaStreamDestroy(x));
      }
  return 0;
}

// What a process can do to the driver, by name: process_test.cc runs it and looks at what it
// leaves.
#include <cuda.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

/// Prints the code of a call as "what=code".
CUresult say(const char* what, CUresult result) {
  std::printf("%s=%d\n", what, static_cast<int>(result));
  return result;
}

CUcontext start() {
  CUcontext context = nullptr;
  if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
      cuCtxSetCurrent(context) != CUDA_SUCCESS) {
    std::exit(3);
  }
  return context;
}

CUresult create(CUmemGenericAllocationHandle* handle) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  return cuMemCreate(handle, 2 * kMiB, &prop, 0);
}

void allocate_and_copy() {
  start();
  CUdeviceptr device = 0;
  CUdeviceptr more = 0;
  void* host = nullptr;
  cuMemAlloc(&device, 8 * kMiB);
  cuMemAllocHost(&host, 4 * kMiB);
  cuMemcpyHtoD(device, host, 4 * kMiB);
  cuMemcpyDtoH(host, device, kMiB);
  cuMemFree(device);
  cuMemAlloc(&more, 2 * kMiB);
}

void create_three() {
  start();
  CUmemGenericAllocationHandle handle = 0;
  for (int call = 0; call < 4; ++call) say("create", create(&handle));
}

void copy_twice() {
  start();
  CUdeviceptr device = 0;
  CUstream stream = nullptr;
  cuMemAlloc(&device, kMiB);
  cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  std::string bytes(512, 'x');
  say("copy", cuMemcpyHtoDAsync(device, bytes.data(), bytes.size(), stream));
  say("copy", cuMemcpyHtoDAsync(device, bytes.data(), bytes.size(), stream));
  say("alloc", cuMemAlloc(&device, kMiB));
}

/// A launch of a kernel that no plugin computes: whether it changes its one operand, and what comes
/// of it where nothing is mapped.
void mix() {
  start();
  constexpr char kPtx[] =
      ".version 8.0\n.target sm_90\n.address_size 64\n"
      ".visible .entry touch(.param .u64 touch_param_0)\n{ ret; }\n";
  CUmodule module = nullptr;
  CUfunction touch = nullptr;
  cuModuleLoadData(&module, kPtx);
  cuModuleGetFunction(&touch, module, "touch");
  CUdeviceptr device = 0;
  cuMemAlloc(&device, kMiB);
  const std::string before(512, 'x');
  std::string after(before.size(), ' ');
  cuMemcpyHtoD(device, before.data(), before.size());
  void* parameters[] = {&device};
  say("launch", cuLaunchKernel(touch, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  cuMemcpyDtoH(after.data(), device, after.size());
  std::printf("changed=%d\n", static_cast<int>(before != after));
  cuMemAddressReserve(&device, 2 * kMiB, 0, 0, 0);
  cuLaunchKernel(touch, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr);
  say("unmapped", cuCtxSynchronize());
}

/// A page of 2 MiB at `place`, mapped at an address of its own.
CUdeviceptr map_page(CUmemLocationType place, CUmemGenericAllocationHandle* page) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = place;
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CUdeviceptr address = 0;
  cuMemCreate(page, 2 * kMiB, &prop, 0);
  cuMemAddressReserve(&address, 2 * kMiB, 0, 0, 0);
  cuMemMap(address, 2 * kMiB, 0, *page, 0);
  cuMemSetAccess(address, 2 * kMiB, &access, 1);
  return address;
}

/// A kernel, a fill and a copy that use a page on the host, besides two pages that nothing uses and
/// that go before the end.
void use_host_page() {
  start();
  constexpr char kPtx[] =
      ".version 8.0\n.target sm_90\n.address_size 64\n"
      ".visible .entry touch(.param .u64 touch_param_0)\n{ ret; }\n";
  CUmodule module = nullptr;
  CUfunction touch = nullptr;
  cuModuleLoadData(&module, kPtx);
  cuModuleGetFunction(&touch, module, "touch");
  CUmemGenericAllocationHandle page = 0;
  CUdeviceptr host = map_page(CU_MEM_LOCATION_TYPE_HOST_NUMA, &page);
  CUdeviceptr unused[2] = {};
  for (CUdeviceptr& address : unused) {
    address = map_page(CU_MEM_LOCATION_TYPE_HOST, &page);
    cuMemRelease(page);  // its mapping alone keeps it
  }
  for (const CUdeviceptr address : unused) cuMemUnmap(address, 2 * kMiB);
  const CUdeviceptr device = map_page(CU_MEM_LOCATION_TYPE_DEVICE, &page);
  void* parameters[] = {&host};
  say("kernel", cuLaunchKernel(touch, 2, 1, 1, 128, 1, 1, 0, nullptr, parameters, nullptr));
  say("fill", cuMemsetD8Async(host, 1, kMiB, nullptr));
  say("copy", cuMemcpyDtoDAsync(device, host, 2 * kMiB, nullptr));
  say("wait", cuCtxSynchronize());
}

/// A cooperative launch, for which the driver looks at the device, that records an event.
void launch_with_attributes() {
  start();
  constexpr char kPtx[] =
      ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry nothing()\n{ ret; }\n";
  CUmodule module = nullptr;
  CUfunction nothing = nullptr;
  CUevent event = nullptr;
  say("load", cuModuleLoadData(&module, kPtx));
  cuModuleGetFunction(&nothing, module, "nothing");
  cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
  CUlaunchAttribute attributes[2]{};
  attributes[0].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  attributes[0].value.cooperative = 1;
  attributes[1].id = CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT;
  attributes[1].value.launchCompletionEvent.event = event;
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  config.attrs = attributes;
  config.numAttrs = 2;
  say("launch", cuLaunchKernelEx(&config, nothing, nullptr, nullptr));
  say("wait", cuEventSynchronize(event));
}

void unmap_under_copy() {
  start();
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr address = 0;
  void* host = nullptr;
  create(&handle);
  cuMemAddressReserve(&address, 2 * kMiB, 0, 0, 0);
  cuMemMap(address, 2 * kMiB, 0, handle, 0);
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  cuMemSetAccess(address, 2 * kMiB, &access, 1);
  cuMemAllocHost(&host, 2 * kMiB);
  CUstream stream = nullptr;
  cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  cuMemcpyHtoDAsync(address, host, 2 * kMiB, stream);
  cuMemUnmap(address, 2 * kMiB);
  say("synchronize", cuStreamSynchronize(stream));
}

void fork_child() {
  start();
  CUdeviceptr device = 0;
  say("parent", cuMemAlloc(&device, kMiB));
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    int count = 0;
    say("child", cuDeviceGetCount(&count));
    say("child", cuInit(0));
    std::fflush(stdout);
    std::exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  std::printf("status=%d\n", status);
  say("parent", cuMemFree(device));
}

void exit_under_load() {
  start();
  CUdeviceptr device = 0;
  void* host = nullptr;
  cuMemAlloc(&device, 16 * kMiB);
  cuMemAllocHost(&host, 16 * kMiB);
  for (int index = 0; index < 4; ++index) {
    CUstream stream = nullptr;
    cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    for (int copy = 0; copy < 8; ++copy) cuMemcpyHtoDAsync(device, host, 16 * kMiB, stream);
  }
}

void CUDA_CB touch(void* page) { *static_cast<volatile int*>(page) = 1; }

void on_fault(int) {
  constexpr char kLine[] = "handler=1\n";
  [[maybe_unused]] const ssize_t written = write(STDOUT_FILENO, kLine, sizeof(kLine) - 1);
  _exit(0);
}

/// A fault outside device code is the program's own: its handler, set before or after, sees it.
void own_fault(bool handler_first) {
  if (handler_first) std::signal(SIGSEGV, on_fault);
  start();
  if (!handler_first) std::signal(SIGSEGV, on_fault);
  CUstream stream = nullptr;
  cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  CUdeviceptr device = 0;
  cuMemAlloc(&device, kMiB);
  cuMemsetD8Async(device, 1, kMiB, stream);  // device code runs under the guard in between
  cuStreamSynchronize(stream);
  void* const page = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  cuLaunchHostFunc(stream, touch, page);
  cuStreamSynchronize(stream);
}

void initialise() {
  say("before", cuCtxSynchronize());
  say("init", cuInit(0));
  int count = -1;
  say("count", cuDeviceGetCount(&count));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view name = argc > 1 ? argv[1] : "";
  if (name == "initialise") {
    initialise();
  } else if (name == "allocate_and_copy") {
    allocate_and_copy();
  } else if (name == "create_three") {
    create_three();
  } else if (name == "copy_twice") {
    copy_twice();
  } else if (name == "use_host_page") {
    use_host_page();
  } else if (name == "mix") {
    mix();
  } else if (name == "launch_with_attributes") {
    launch_with_attributes();
  } else if (name == "unmap_under_copy") {
    unmap_under_copy();
  } else if (name == "fork") {
    fork_child();
  } else if (name == "exit_under_load") {
    exit_under_load();
  } else if (name == "own_fault_handler_first") {
    own_fault(true);
  } else if (name == "own_fault_handler_later") {
    own_fault(false);
  } else {
    std::fprintf(stderr, "no such scenario\n");
    return 2;
  }
  return 0;
}

// A driver that allocates nothing and counts its calls. Everything that is not here is a stub that
// answers CUDA_ERROR_NOT_SUPPORTED.
//
// FAKE_DRIVER_PRIVATE_ENTRIES=1 makes its lookups return functions that it does not export, as a
// driver without pointer identity would. FAKE_DRIVER_VERSION=N is the CUDA version that it says it
// has. Asked for version 14000 or later, it has a form of cuMemAlloc that no header knows yet.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))
/// Of functions that drivers of CUDA 11 do not have.
#ifdef FAKE_DRIVER_OF_CUDA_11
#define SINCE_CUDA_12 static
#else
#define SINCE_CUDA_12 EXPORTED
#endif

typedef int Result;
typedef unsigned long long Address;

enum { kSuccess = 0, kInvalidValue = 1, kNotFound = 500 };

static int allocations = 0;
static Address next_address = 0x100000;

/// For the tests: how often the driver itself was asked to allocate.
EXPORTED int fake_driver_allocations(void) { return allocations; }

EXPORTED Result cuInit(unsigned flags) { return flags == 0 ? kSuccess : kInvalidValue; }
EXPORTED Result cuDriverGetVersion(int* version) {
  const char* const text = getenv("FAKE_DRIVER_VERSION");
  *version = text != NULL ? atoi(text) : 13000;
  return kSuccess;
}
EXPORTED Result cuDeviceGetCount(int* count) {
  *count = 1;
  return kSuccess;
}
EXPORTED Result cuCtxGetCurrent(void** context) {
  *context = (void*)0x1;
  return kSuccess;
}
EXPORTED Result cuCtxGetDevice(int* device) {
  *device = 0;
  return kSuccess;
}
EXPORTED Result cuMemGetInfo_v2(size_t* free_bytes, size_t* total) {
  *free_bytes = *total = (size_t)1 << 34;
  return kSuccess;
}
static Result private_alloc(Address* address, size_t size) {
  ++allocations;
  *address = next_address;
  next_address += size;
  return kSuccess;
}
EXPORTED Result cuMemAlloc_v2(Address* address, size_t size) {
  return private_alloc(address, size);
}
/// A form of the next version: other parameters, so no hook of the old form may stand in for it.
EXPORTED Result cuMemAlloc_v99(size_t size, Address* address) {
  return private_alloc(address, size);
}
EXPORTED Result cuMemFree_v2(Address address) {
  (void)address;
  return kSuccess;
}
/// Calls an exported function of its own: linked without -Bsymbolic, that leads to the preload.
EXPORTED Result cuMemAllocPitch_v2(Address* address, size_t* pitch, size_t width, size_t height,
                                   unsigned element) {
  (void)element;
  *pitch = width;
  return cuMemAlloc_v2(address, width * height);
}

static const char* symbol_of(const char* name, int version, int per_thread) {
  if (strcmp(name, "cuMemAlloc") == 0) {
    if (version >= 14000) return "cuMemAlloc_v99";
    return version >= 3020 ? "cuMemAlloc_v2" : "cuMemAlloc";
  }
  if (strcmp(name, "cuLaunchKernel") == 0) {
    return per_thread ? "cuLaunchKernel_ptsz" : "cuLaunchKernel";
  }
  if (strcmp(name, "cuGetProcAddress") == 0) {
    return version >= 12000 ? "cuGetProcAddress_v2" : "cuGetProcAddress";
  }
  return name;
}

/// The driver's function itself, not what a preload has put before it.
static void* own_symbol(const char* name) {
  Dl_info info;
  if (dladdr((void*)&fake_driver_allocations, &info) == 0) return NULL;
  void* handle = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  if (handle == NULL) return NULL;
  void* symbol = dlsym(handle, name);
  dlclose(handle);
  return symbol;
}

SINCE_CUDA_12 Result cuGetProcAddress_v2(const char* name, void** function, int version,
                                         uint64_t flags, int* status) {
  if (strcmp(name, "cuNewInTheNextVersion") == 0) {
    *function = (void*)&private_alloc;
  } else {
    *function = own_symbol(symbol_of(name, version, (flags & 2) != 0));
  }
  const char* private = getenv("FAKE_DRIVER_PRIVATE_ENTRIES");
  if (private != NULL && strcmp(name, "cuMemAlloc") == 0 && version < 14000) {
    *function = (void*)&private_alloc;
  }
  if (status != NULL) *status = *function == NULL ? 1 : 0;
  return *function != NULL || status != NULL ? kSuccess : kNotFound;
}
EXPORTED Result cuGetProcAddress(const char* name, void** function, int version, uint64_t flags) {
  return cuGetProcAddress_v2(name, function, version, flags, NULL);
}

// simgpu with one behaviour changed, as PROXY_DRIVER says: what the questions of `superpipe doctor`
// have to tell from a good driver, and to survive. What it does not define itself is found in
// simgpu, which it is linked to.
#include <cuda.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <set>

#define PROXY_EXPORT extern "C" __attribute__((visibility("default"))) CUresult

namespace {

bool is(const char* what) {
  const char* const value = std::getenv("PROXY_DRIVER");
  return value != nullptr && std::strcmp(value, what) == 0;
}

// simgpu's function behind one of ours. Both are libcuda.so.1 to the loader, but only simgpu is
// loaded under that name.
template <typename Pointer>
Pointer behind(Pointer /*ours*/, const char* name) {
  static void* const simgpu = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return reinterpret_cast<Pointer>(dlsym(simgpu, name));
}

// Handles of pages on the host, and the ranges where such pages are mapped: address to size.
std::set<CUmemGenericAllocationHandle> host_handles;
std::map<CUdeviceptr, size_t> host_ranges;

bool on_host(CUdeviceptr address) {
  const auto above = host_ranges.upper_bound(address);
  if (above == host_ranges.begin()) return false;
  const auto& [start, bytes] = *std::prev(above);
  return address - start < bytes;
}

}  // namespace

// Read-only mappings: only the question H6 asks for one. And pages on the host that are not zero
// when they are opened.
PROXY_EXPORT cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* access,
                            size_t count) {
  CUmemAccessDesc changed = *access;
  if (access->location.type != CU_MEM_LOCATION_TYPE_DEVICE && is("host-pages-not-for-the-host")) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (access->flags == CU_MEM_ACCESS_FLAGS_PROT_READ) {
    if (is("crash")) std::abort();
    if (is("hang")) pause();
    if (is("fail")) return CUDA_ERROR_UNKNOWN;
    if (is("refuse-read-only")) return CUDA_ERROR_INVALID_VALUE;
    if (is("ignore-read-only")) changed.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }
  const CUresult result =
      behind(&cuMemSetAccess, "cuMemSetAccess")(address, bytes, &changed, count);
  if (is("host-pages-dirty") && on_host(address)) {
    cuMemsetD32(address, 1, 1);
    cuStreamSynchronize(nullptr);  // the page may be unmapped next
  }
  return result;
}

// Pages on the host are remembered, and those of a node end the process.
PROXY_EXPORT cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                         const CUmemAllocationProp* properties, unsigned long long flags) {
  const bool numa = properties->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
  if (numa && is("host-numa-crashes")) std::abort();
  const CUresult result = behind(&cuMemCreate, "cuMemCreate")(handle, bytes, properties, flags);
  if (result == CUDA_SUCCESS && properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    host_handles.insert(*handle);
  }
  return result;
}

PROXY_EXPORT cuMemRelease(CUmemGenericAllocationHandle handle) {
  host_handles.erase(handle);
  return behind(&cuMemRelease, "cuMemRelease")(handle);
}

// Aliases: a second mapping of a handle gets pages of its own. What lies on the host is remembered.
PROXY_EXPORT cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                      CUmemGenericAllocationHandle handle, unsigned long long flags) {
  static std::set<CUmemGenericAllocationHandle> mapped;
  if (is("split-aliases") && !mapped.insert(handle).second) {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    if (cuMemCreate(&handle, bytes, &properties, 0) != CUDA_SUCCESS) return CUDA_ERROR_UNKNOWN;
  }
  if (host_handles.count(handle) != 0) host_ranges[address] = bytes;
  return behind(&cuMemMap, "cuMemMap")(address, bytes, offset, handle, flags);
}

// Unmapping: the first that has something before it damages that. It waits until nothing runs, for
// a kernel that writes the word at its end would mend the damage.
PROXY_EXPORT cuMemUnmap(CUdeviceptr address, size_t bytes) {
  static bool damaged = false;
  host_ranges.erase(address);
  const CUresult result = behind(&cuMemUnmap, "cuMemUnmap")(address, bytes);
  if (is("unmap-damages") && !damaged) {
    cuCtxSynchronize();
    damaged = cuMemsetD32(address - 4, 0xbad, 1) == CUDA_SUCCESS;  // not where nothing is mapped
    cuCtxSynchronize();
  }
  return result;
}

// Copies to the device: of a word, another one.
PROXY_EXPORT cuMemcpyHtoDAsync(CUdeviceptr address, const void* source, size_t bytes,
                               CUstream stream) {
  static const unsigned kOther = 0xbad;
  const bool is_wrong = is("wrong-copy") && bytes == sizeof(kOther);
  return behind(&cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2")(address, is_wrong ? &kOther : source,
                                                            bytes, stream);
}

// Memsets of words on the host: of another word.
PROXY_EXPORT cuMemsetD32Async(CUdeviceptr address, unsigned word, size_t count, CUstream stream) {
  if (is("host-pages-wrong-memset") && on_host(address)) ++word;
  return behind(&cuMemsetD32Async, "cuMemsetD32Async")(address, word, count, stream);
}

// Copies on the device: those that read the host wait for what is in front of them, or leave out
// the second half.
PROXY_EXPORT cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  if (is("host-pages-wait") && on_host(from)) cuStreamSynchronize(stream);
  if (is("host-pages-half-copies") && on_host(from)) bytes /= 2;
  return behind(&cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2")(to, from, bytes, stream);
}

// Copies from pages on the host: the first byte is another one.
PROXY_EXPORT cuMemcpyDtoH(void* to, CUdeviceptr from, size_t bytes) {
  const CUresult result = behind(&cuMemcpyDtoH, "cuMemcpyDtoH_v2")(to, from, bytes);
  if (is("host-pages-lose-adds") && on_host(from)) --*static_cast<unsigned char*>(to);
  return result;
}

// Launches of graphs: those after a page on the host has been mapped do nothing.
PROXY_EXPORT cuGraphLaunch(CUgraphExec graph, CUstream stream) {
  if (is("host-pages-stale-graphs") && !host_ranges.empty()) return CUDA_SUCCESS;
  return behind(&cuGraphLaunch, "cuGraphLaunch")(graph, stream);
}

// Tensor maps with the address as it is, in another form than simgpu's, or, of a page on the host,
// with that of the first map.
PROXY_EXPORT cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                                    void* address, const cuuint64_t* extents,
                                    const cuuint64_t* strides, const cuuint32_t* box,
                                    const cuuint32_t* steps, CUtensorMapInterleave interleave,
                                    CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                    CUtensorMapFloatOOBfill fill) {
  if (!is("raw-maps") && !is("coded-maps")) {
    static void* const first = address;
    if (is("host-pages-other-maps") && on_host(reinterpret_cast<CUdeviceptr>(address))) {
      address = first;
    }
    return behind(&cuTensorMapEncodeTiled, "cuTensorMapEncodeTiled")(
        map, type, rank, address, extents, strides, box, steps, interleave, swizzle, promotion,
        fill);
  }
  std::memset(map, 0x11, sizeof(*map));
  auto value = reinterpret_cast<cuuint64_t>(address);
  if (is("coded-maps")) value = ~value;
  std::memcpy(reinterpret_cast<char*>(map) + 24, &value, sizeof(value));
  return CUDA_SUCCESS;
}

// Modules and libraries: what their code takes is counted, and cached layouts go before the code.
#include <cstdint>
#include <functional>
#include <mutex>
#include <new>
#include <string_view>
#include <unordered_set>

#include "interposer/driver/table.h"
#include "interposer/generated/hooks.h"
#include "interposer/passthrough/counting_code.h"

namespace superpipe {
namespace {

/// What has been looked up, and so has been loaded: programs may do so again at each launch.
/// Thread-safe.
class LookedUp {
 public:
  [[nodiscard]] bool contains(std::size_t key) const noexcept {
    const std::lock_guard lock(mutex_);
    return keys_.count(key) > 0;
  }
  void add(std::size_t key) noexcept {
    const std::lock_guard lock(mutex_);
    try {
      keys_.insert(key);
    } catch (const std::bad_alloc&) {
      // It is measured again.
    }
  }
  void clear() noexcept {
    const std::lock_guard lock(mutex_);
    keys_.clear();
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_set<std::size_t> keys_;
};

LookedUp& looked_up() {
  static auto* const keys = new LookedUp();  // never destroyed: programs end in any order
  return *keys;
}

/// Looks up `name` (null: none) in `handle` through `call`, which may load it.
template <typename Call>
CUresult look_up(const void* handle, const char* name, const Call& call) noexcept {
  if (ContextRegistry::managed() == nullptr) return call();
  const std::size_t of_name = std::hash<std::string_view>{}(name == nullptr ? "" : name);
  const std::size_t key = of_name * 31 + reinterpret_cast<std::uintptr_t>(handle);
  if (looked_up().contains(key)) return call();
  const CodeMeasurement measurement(CodeChange::kLoad);
  const CUresult result = call();
  if (result == CUDA_SUCCESS && measurement.counts()) looked_up().add(key);
  return result;
}

/// Unloads code through `call`.
template <typename Call>
CUresult unload(const Call& call) noexcept {
  // First: its handles may come again, for other functions, as soon as the driver has freed them.
  if (ManagedContext* const managed = ContextRegistry::managed()) managed->layouts().clear();
  looked_up().clear();
  return counting_code(CodeChange::kUnload, call);
}

}  // namespace

CUresult hook::cuModuleLoad(CUmodule* module, const char* fname) noexcept {
  return counting_code(CodeChange::kLoad, [&] { return driver().cuModuleLoad(module, fname); });
}
CUresult hook::cuModuleLoadData(CUmodule* module, const void* image) noexcept {
  return counting_code(CodeChange::kLoad, [&] { return driver().cuModuleLoadData(module, image); });
}
CUresult hook::cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int numOptions,
                                  CUjit_option* options, void** optionValues) noexcept {
  return counting_code(CodeChange::kLoad, [&] {
    return driver().cuModuleLoadDataEx(module, image, numOptions, options, optionValues);
  });
}
CUresult hook::cuModuleLoadFatBinary(CUmodule* module, const void* fatCubin) noexcept {
  return counting_code(CodeChange::kLoad,
                       [&] { return driver().cuModuleLoadFatBinary(module, fatCubin); });
}
CUresult hook::cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* jitOptions,
                                 void** jitOptionsValues, unsigned int numJitOptions,
                                 CUlibraryOption* libraryOptions, void** libraryOptionValues,
                                 unsigned int numLibraryOptions) noexcept {
  return counting_code(CodeChange::kLoad, [&] {
    return driver().cuLibraryLoadData(library, code, jitOptions, jitOptionsValues, numJitOptions,
                                      libraryOptions, libraryOptionValues, numLibraryOptions);
  });
}
CUresult hook::cuLibraryLoadFromFile(CUlibrary* library, const char* fileName,
                                     CUjit_option* jitOptions, void** jitOptionsValues,
                                     unsigned int numJitOptions, CUlibraryOption* libraryOptions,
                                     void** libraryOptionValues,
                                     unsigned int numLibraryOptions) noexcept {
  return counting_code(CodeChange::kLoad, [&] {
    return driver().cuLibraryLoadFromFile(library, fileName, jitOptions, jitOptionsValues,
                                          numJitOptions, libraryOptions, libraryOptionValues,
                                          numLibraryOptions);
  });
}

CUresult hook::cuModuleGetFunction(CUfunction* hfunc, CUmodule hmod, const char* name) noexcept {
  return look_up(hmod, name, [&] { return driver().cuModuleGetFunction(hfunc, hmod, name); });
}
CUresult hook::cuKernelGetFunction(CUfunction* pFunc, CUkernel kernel) noexcept {
  return look_up(kernel, nullptr, [&] { return driver().cuKernelGetFunction(pFunc, kernel); });
}
CUresult hook::cuFuncLoad(CUfunction function) noexcept {
  return look_up(function, nullptr, [&] { return driver().cuFuncLoad(function); });
}
CUresult hook::cuLibraryGetModule(CUmodule* pMod, CUlibrary library) noexcept {
  return look_up(library, nullptr, [&] { return driver().cuLibraryGetModule(pMod, library); });
}
CUresult hook::cuLibraryGetGlobal(CUdeviceptr* dptr, size_t* bytes, CUlibrary library,
                                  const char* name) noexcept {
  return look_up(library, name,
                 [&] { return driver().cuLibraryGetGlobal(dptr, bytes, library, name); });
}

CUresult hook::cuLibraryGetManaged(CUdeviceptr* dptr, size_t* bytes, CUlibrary library,
                                   const char* name) noexcept {
  return look_up(library, name,
                 [&] { return driver().cuLibraryGetManaged(dptr, bytes, library, name); });
}
CUresult hook::cuFuncGetAttribute(int* pi, CUfunction_attribute attrib, CUfunction hfunc) noexcept {
  return look_up(hfunc, nullptr, [&] { return driver().cuFuncGetAttribute(pi, attrib, hfunc); });
}
CUresult hook::cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib,
                                  int value) noexcept {
  return look_up(hfunc, nullptr, [&] { return driver().cuFuncSetAttribute(hfunc, attrib, value); });
}
CUresult hook::cuOccupancyMaxActiveBlocksPerMultiprocessor(int* numBlocks, CUfunction func,
                                                           int blockSize,
                                                           size_t dynamicSMemSize) noexcept {
  return look_up(func, nullptr, [&] {
    return driver().cuOccupancyMaxActiveBlocksPerMultiprocessor(numBlocks, func, blockSize,
                                                                dynamicSMemSize);
  });
}
CUresult hook::cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* numBlocks, CUfunction func,
                                                                    int blockSize,
                                                                    size_t dynamicSMemSize,
                                                                    unsigned int flags) noexcept {
  return look_up(func, nullptr, [&] {
    return driver().cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, func, blockSize,
                                                                         dynamicSMemSize, flags);
  });
}

CUresult hook::cuModuleUnload(CUmodule hmod) noexcept {
  return unload([&] { return driver().cuModuleUnload(hmod); });
}
CUresult hook::cuLibraryUnload(CUlibrary library) noexcept {
  return unload([&] { return driver().cuLibraryUnload(library); });
}

}  // namespace superpipe

// The modules, libraries, functions and kernels that exist, and the handles that name them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tools/simgpu/driver/code/function_attributes.h"
#include "tools/simgpu/driver/code/loaded_image.h"
#include "tools/simgpu/driver/context/context.h"
#include "tools/simgpu/driver/entry/api.h"

namespace simgpu {

/// A kernel in one context: what a CUfunction names. Immutable but for its attributes.
struct Function {
  LoadedImagePtr image;  ///< keeps `code` alive
  const KernelCode* code = nullptr;
  Context* context = nullptr;
  CUmodule module = nullptr;
  std::shared_ptr<FunctionAttributes> attributes;  ///< shared with the kernel, if of a library
};
using FunctionPtr = std::shared_ptr<const Function>;

/// A kernel of a library, in no context: what a CUkernel names. Immutable but for its attributes.
struct Kernel {
  LoadedImagePtr image;
  const KernelCode* code = nullptr;
  int index = 0;  ///< in the image
  CUlibrary library = nullptr;
  std::shared_ptr<FunctionAttributes> attributes;
};
using KernelPtr = std::shared_ptr<const Kernel>;

/// An image loaded into one context: what a CUmodule names. Owns its data block in device memory.
/// Immutable.
struct Module {
  LoadedImagePtr image;
  Context* context = nullptr;
  std::uint64_t data = 0;             ///< device address of the data block; 0: it has none
  CUlibrary library = nullptr;        ///< the library that it is an instance of, or null
  std::vector<CUfunction> functions;  ///< by index of the kernel in the image
};
using ModulePtr = std::shared_ptr<const Module>;

/// A library; it becomes a module in each context that uses it. `modules` belongs to the registry.
struct Library {
  LoadedImagePtr image;
  std::vector<CUkernel> kernels;         ///< by index in the image
  std::map<Context*, CUmodule> modules;  ///< where it is loaded
};

/// All of them. Handles are numbers that are never used twice, and no addresses: a stale one is
/// recognised for certain. Thread-safe; waits on nothing unless it says so.
class ModuleRegistry {
 public:
  /// The process's registry; never destroyed.
  static ModuleRegistry& instance();

  /// Loads `image` into `context`: allocates the data block and writes its initial bytes.
  /// @return CUDA_ERROR_OUT_OF_MEMORY.
  CUresult load_module(Context& context, const LoadedImagePtr& image, CUmodule* handle);

  /// Unloads a module; waits for the context's work if the module has data on the device.
  /// @return CUDA_ERROR_INVALID_HANDLE; CUDA_ERROR_NOT_PERMITTED for a module of a library.
  CUresult unload_module(CUmodule handle);

  /// Loads `image` as a library, into no context yet.
  CUlibrary load_library(LoadedImagePtr image);

  /// Unloads a library and its modules in all contexts; waits like unload_module().
  /// @return CUDA_ERROR_INVALID_HANDLE.
  CUresult unload_library(CUlibrary handle);

  /// The module of library `handle` in `context`, loaded at its first use.
  /// @return CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_OUT_OF_MEMORY.
  CUresult module_of(CUlibrary handle, Context& context, CUmodule* module);

  /// Null if the handle is stale or was never one.
  ModulePtr find(CUmodule handle) const;
  FunctionPtr find(CUfunction handle) const;
  KernelPtr find(CUkernel handle) const;
  LoadedImagePtr image_of(CUlibrary handle) const;

  /// The kernels of a library, by index; empty if the handle is stale.
  std::vector<CUkernel> kernels_of(CUlibrary handle) const;

  /// Forgets what `context` holds, without waiting: it is being destroyed.
  void forget(Context& context);

 private:
  ModuleRegistry();

  enum class HandleKind : std::uint64_t { kModule = 1, kFunction, kLibrary, kKernel };
  template <typename Handle>
  Handle new_handle(HandleKind kind);
  CUresult add_module(Context& context, const LoadedImagePtr& image, CUlibrary library,
                      const std::vector<std::shared_ptr<FunctionAttributes>>& attributes,
                      CUmodule* handle);
  ModulePtr remove(CUmodule handle);
  static void free_data(const Module& module);

  mutable std::shared_mutex mutex_;
  std::mutex load_mutex_;  ///< one instance of a library per context; taken before mutex_
  std::uint64_t next_ = 1;
  std::unordered_map<CUmodule, ModulePtr> modules_;
  std::unordered_map<CUfunction, FunctionPtr> functions_;
  std::unordered_map<CUlibrary, Library> libraries_;
  std::unordered_map<CUkernel, KernelPtr> kernels_;
};

/// The function of `kernel` in `context`, whose module is loaded at the first use.
/// @return CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_OUT_OF_MEMORY.
CUresult function_of(CUkernel kernel, Context& context, CUfunction* function);

/// Where variable `name` of `module` lies, and how long it is. `address` or `bytes` may be null,
/// but not both. @return CUDA_ERROR_NOT_FOUND if the module has no such variable.
CUresult global_of(const Module& module, std::string_view name, CUdeviceptr* address,
                   std::size_t* bytes);

/// Where parameter `index` of `kernel` lies; `size` may be null.
/// @return CUDA_ERROR_INVALID_VALUE behind the last one, which is how programs find their number.
CUresult parameter_layout(const KernelImage& kernel, std::size_t index, std::size_t* offset,
                          std::size_t* size);

}  // namespace simgpu

// What programs register with the runtime library: fat binaries, kernels, variables.
#pragma once

#include <fatbinary_section.h>

#include <cstddef>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "tools/simgpu/cudart/runtime.h"

namespace simgpu::cudart {

/// One fat binary that a program registered; its driver library is loaded at the first use of
/// anything in it.
class FatBinary {
 public:
  /// `wrapper` is the program's, and outlives this object.
  explicit FatBinary(const __fatBinC_Wrapper_t* wrapper) : wrapper_(wrapper) {}

  /// The driver's library, loaded now if it was not. Waits for no device work. Thread safe.
  /// @return what cuLibraryLoadData answered, every time: a failed load is not repeated.
  cudaError_t library(CUlibrary* library);

  /// Remembers that `host_pointer` is to receive the address of managed variable `name` when the
  /// library is loaded.
  void add_managed(void** host_pointer, std::string name);

  /// Gives the library back to the driver, where it was loaded and the driver still lives.
  void unload();

 private:
  struct Managed {
    void** host_pointer;
    std::string name;
  };

  cudaError_t load();

  const __fatBinC_Wrapper_t* const wrapper_;
  std::mutex mutex_;
  bool loaded_ = false;
  cudaError_t status_ = cudaSuccess;
  CUlibrary library_ = nullptr;
  std::vector<Managed> managed_;
};

/// What programs registered: kernels by the address of their host stub, variables by that of their
/// host shadow.
///
/// All functions are thread safe. Registered things live until their fat binary is unregistered.
class Registry {
 public:
  /// The process's registry, never destroyed.
  static Registry& instance();

  FatBinary* add(const __fatBinC_Wrapper_t* wrapper);
  void add_function(FatBinary* binary, const void* host, const char* name);
  void add_variable(FatBinary* binary, const void* host, const char* name, size_t bytes);

  /// Forgets the fat binary and all that was registered with it, and unloads it.
  void remove(FatBinary* binary);

  /// The kernel that `function` means: a registered host stub, or a kernel handle that this library
  /// handed out.
  /// @return cudaErrorInvalidDeviceFunction for anything else, or the error of loading.
  cudaError_t kernel(const void* function, CUkernel* kernel);

  /// Makes a handle that the library handed out acceptable where the API takes "a kernel".
  void remember(CUkernel kernel);

  /// Address and size of a registered variable on the thread's device. REQUIRES: a current context.
  /// @return cudaErrorInvalidSymbol if nothing is registered at `symbol`.
  cudaError_t variable(const void* symbol, CUdeviceptr* address, size_t* bytes);

 private:
  struct Function {
    FatBinary* binary = nullptr;
    std::string name;
    CUkernel kernel = nullptr;  // null until first used
  };
  struct Variable {
    FatBinary* binary = nullptr;
    std::string name;
    size_t bytes = 0;
  };

  std::shared_mutex mutex_;
  std::unordered_map<const void*, Function> functions_;
  std::unordered_map<const void*, Variable> variables_;
};

}  // namespace simgpu::cudart

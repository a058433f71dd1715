#include "tools/simgpu/cublas/launch.h"

#include <dlfcn.h>

#include <string>

namespace simgpu::cublas {
namespace {

constexpr std::array<const char*, 5> kNames = {
    "simgpu_cublas_gemm", "simgpu_cublas_gemm_strided_batched", "simgpu_cublas_gemv",
    "simgpu_cublas_dot", "simgpu_cublas_matmul"};

/// The name of a kernel with eight inputs and one output, mangled as a compiler does: the const of
/// the inputs tells the mixer to write to the output only.
std::string mangled(const std::string& name) {
  return "_Z" + std::to_string(name.size()) + name + "PKvS0_S0_S0_S0_S0_S0_S0_Pv";
}

/// A module with all kernels, each with nine pointers.
std::string module_text() {
  std::string text = ".version 8.0\n.target sm_50\n.address_size 64\n";
  for (const char* const name : kNames) {
    const std::string entry = mangled(name);
    text += ".visible .entry " + entry + "(";
    for (int parameter = 0; parameter < 9; ++parameter) {
      text += (parameter == 0 ? "" : ", ") + (".param .u64 " + entry) + "_param_" +
              std::to_string(parameter);
    }
    text += ")\n{\n  ret;\n}\n";
  }
  return text;
}

/// The driver's functions that a launch needs, and the kernels.
struct Device {
  decltype(&::cuCtxGetCurrent) ctx_get_current = nullptr;
  decltype(&::cuLaunchKernel) launch_kernel = nullptr;
  std::array<CUkernel, kNames.size()> kernels{};
  bool usable = false;
};

using GetProcAddress = CUresult (*)(const char*, void**, int, cuuint64_t,
                                    CUdriverProcAddressQueryResult*);

template <typename Function>
bool resolve(GetProcAddress get, const char* name, Function& function) {
  void* address = nullptr;
  CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  if (get(name, &address, CUDA_VERSION, CU_GET_PROC_ADDRESS_DEFAULT, &found) != CUDA_SUCCESS) {
    return false;
  }
  function = reinterpret_cast<Function>(address);
  return address != nullptr;
}

Device open_device() {
  Device device;
  // Never closed: launches may come until the process ends.
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) return device;
  const auto exported = reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
  GetProcAddress get = nullptr;
  decltype(&::cuInit) init = nullptr;
  decltype(&::cuLibraryLoadData) load = nullptr;
  decltype(&::cuLibraryGetKernel) get_kernel = nullptr;
  if (exported == nullptr || !resolve(exported, "cuGetProcAddress", get) ||
      !resolve(get, "cuInit", init) || !resolve(get, "cuCtxGetCurrent", device.ctx_get_current) ||
      !resolve(get, "cuLaunchKernel", device.launch_kernel) ||
      !resolve(get, "cuLibraryLoadData", load) || !resolve(get, "cuLibraryGetKernel", get_kernel)) {
    return device;
  }
  CUlibrary loaded = nullptr;
  const std::string text = module_text();
  if (init(0) != CUDA_SUCCESS ||
      load(&loaded, text.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0) != CUDA_SUCCESS) {
    return device;
  }
  for (std::size_t index = 0; index < kNames.size(); ++index) {
    if (get_kernel(&device.kernels[index], loaded, mangled(kNames[index]).c_str()) !=
        CUDA_SUCCESS) {
      return device;
    }
  }
  device.usable = true;
  return device;
}

const Device& device() {
  static const Device device = open_device();
  return device;
}

}  // namespace

Status check_context() noexcept {
  CUcontext context = nullptr;
  const bool current = device().usable && device().ctx_get_current(&context) == CUDA_SUCCESS;
  return current && context != nullptr ? kSuccess : kNotInitialized;
}

Status launch(Routine routine, CUstream stream, const Inputs& inputs, const void* output) noexcept {
  if (const Status status = check_context(); status != kSuccess) return status;
  std::array<const void*, 9> words{};
  std::array<void*, 9> parameters{};
  for (std::size_t index = 0; index < words.size(); ++index) {
    words[index] = index < inputs.size() ? inputs[index] : output;
    parameters[index] = static_cast<void*>(&words[index]);
  }
  // A CUkernel is launched under the name of a function. Source: CUDA Driver API, cuLaunchKernel.
  const auto function =
      reinterpret_cast<CUfunction>(device().kernels[static_cast<std::size_t>(routine)]);
  const CUresult result =
      device().launch_kernel(function, 1, 1, 1, 128, 1, 1, 0, stream, parameters.data(), nullptr);
  return result == CUDA_SUCCESS ? kSuccess : kExecutionFailed;
}

}  // namespace simgpu::cublas

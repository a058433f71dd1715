#include "tools/simgpu/cublas/launch.h"

#include <dlfcn.h>

#include <algorithm>
#include <string>

namespace simgpu::cublas {
namespace {

constexpr std::array<const char*, 11> kNames = {"gemm",   "gemm_strided_batched",
                                                "gemv",   "dot",
                                                "matmul", "dnn",
                                                "trsm",   "scal",
                                                "fft",    "solver",
                                                "sparse"};

/// A kernel without code, with `parameters` parameters of 8 bytes.
std::string entry_text(const std::string& name, std::size_t parameters) {
  std::string text = ".visible .entry " + name + "(";
  for (std::size_t parameter = 0; parameter < parameters; ++parameter) {
    text += (parameter == 0 ? "" : ", ") + (".param .u64 " + name) + "_param_" +
            std::to_string(parameter);
  }
  return text + ")\n{\n  ret;\n}\n";
}

/// A module with all kernels: those of products have the parameters of product_kernel.h, the two
/// others those of batched_kernel.h.
std::string module_text() {
  std::string text = ".version 8.0\n.target sm_50\n.address_size 64\n";
  for (const char* const name : kNames) {
    text += entry_text(product_kernel_name(name), kProductWords);
  }
  return text + entry_text(kBatchedKernel, kBatchedWords) + entry_text(kPivotsKernel, kPivotsWords);
}

/// The driver's functions that a launch needs, and the kernels.
struct Device {
  decltype(&::cuCtxGetCurrent) ctx_get_current = nullptr;
  decltype(&::cuLaunchKernel) launch_kernel = nullptr;
  decltype(&::cuMemsetD8Async) fill = nullptr;
  std::array<CUkernel, kNames.size()> kernels{};
  CUkernel batched = nullptr;
  CUkernel pivots = nullptr;
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
      !resolve(get, "cuMemsetD8Async", device.fill) || !resolve(get, "cuLibraryLoadData", load) ||
      !resolve(get, "cuLibraryGetKernel", get_kernel)) {
    return device;
  }
  CUlibrary loaded = nullptr;
  const std::string text = module_text();
  if (init(0) != CUDA_SUCCESS ||
      load(&loaded, text.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0) != CUDA_SUCCESS) {
    return device;
  }
  for (std::size_t index = 0; index < kNames.size(); ++index) {
    if (get_kernel(&device.kernels[index], loaded, product_kernel_name(kNames[index]).c_str()) !=
        CUDA_SUCCESS) {
      return device;
    }
  }
  device.usable = get_kernel(&device.batched, loaded, kBatchedKernel) == CUDA_SUCCESS &&
                  get_kernel(&device.pivots, loaded, kPivotsKernel) == CUDA_SUCCESS;
  return device;
}

const Device& device() {
  static const Device device = open_device();
  return device;
}

/// Launches `kernel` with words as its parameters, in blocks of 256 threads. REQUIRES:
/// check_context().
template <std::size_t kWords>
Status launch_words(CUkernel kernel, CUstream stream, const std::array<unsigned, 3>& grid,
                    std::array<std::uint64_t, kWords> words) noexcept {
  std::array<void*, kWords> parameters{};
  for (std::size_t index = 0; index < words.size(); ++index) parameters[index] = &words[index];
  // A CUkernel is launched under the name of a function. Source: CUDA Driver API, cuLaunchKernel.
  const auto function = reinterpret_cast<CUfunction>(kernel);
  const CUresult result = device().launch_kernel(function, grid[0], grid[1], grid[2], 256, 1, 1, 0,
                                                 stream, parameters.data(), nullptr);
  return result == CUDA_SUCCESS ? kSuccess : kExecutionFailed;
}

/// Whether they share memory, as far as their bytes are known.
bool overlap(const ProductOperand& one, const ProductOperand& other) noexcept {
  const auto begin = [](const ProductOperand& operand) {
    return reinterpret_cast<std::uintptr_t>(operand.address);
  };
  const auto end = [begin](const ProductOperand& operand) {
    return begin(operand) + std::max<std::uint64_t>(operand.bytes, 1);
  };
  return begin(one) < end(other) && begin(other) < end(one);
}

/// The first launch has the inputs that lie in the output: later ones find there what it has
/// written.
Status write_output(Routine routine, CUstream stream, std::span<const ProductOperand> inputs,
                    const ProductOperand& output, const Product& work) noexcept {
  Inputs read{};
  std::size_t used = 0;
  for (const bool overwritten : {true, false}) {
    for (const ProductOperand& input : inputs) {
      if (input.address == nullptr || overlap(input, output) != overwritten) continue;
      if (used == read.size()) {
        const Status status = launch(routine, stream, read, output, work);
        if (status != kSuccess) return status;
        read = {output};
        used = 1;
      }
      read[used++] = input;
    }
  }
  return launch(routine, stream, read, output, work);
}

}  // namespace

Status check_context() noexcept {
  CUcontext context = nullptr;
  const bool current = device().usable && device().ctx_get_current(&context) == CUDA_SUCCESS;
  return current && context != nullptr ? kSuccess : kNotInitialized;
}

std::array<unsigned, 3> grid_of(const Product& product) {
  constexpr std::uint64_t kTile = 128;
  constexpr std::uint64_t kSum = 1024;
  constexpr std::uint64_t kMostX = 2147483647;
  constexpr std::uint64_t kMostYz = 65535;
  const auto blocks = [](std::uint64_t extent, std::uint64_t each, std::uint64_t most) {
    return static_cast<unsigned>(std::clamp<std::uint64_t>((extent + each - 1) / each, 1, most));
  };
  if (product.m == 1 && product.n == 1) return {blocks(product.k, kSum, kMostX), 1, 1};
  return {blocks(product.m, kTile, kMostX), blocks(product.n, kTile, kMostYz),
          blocks(product.batches, 1, kMostYz)};
}

Status launch(Routine routine, CUstream stream, const Inputs& inputs, ProductOperand output,
              const Product& product) noexcept {
  if (const Status status = check_context(); status != kSuccess) return status;
  std::array<std::uint64_t, kProductWords> words{};
  const auto set = [&words](std::size_t index, const ProductOperand& operand) {
    words[index] = reinterpret_cast<std::uintptr_t>(operand.address);
    words[kProductAddresses + kProductFields + index] = operand.bytes;
  };
  for (std::size_t index = 0; index < inputs.size(); ++index) set(index, inputs[index]);
  set(inputs.size(), output);
  const std::array<std::uint64_t, kProductFields> fields = words_of(product);
  std::copy(fields.begin(), fields.end(), words.begin() + kProductAddresses);
  return launch_words(device().kernels[static_cast<std::size_t>(routine)], stream, grid_of(product),
                      words);
}

Status execute(Routine routine, CUstream stream, std::span<const ProductOperand> inputs,
               std::span<const ProductOperand> outputs, const Product& work) noexcept {
  for (const ProductOperand& output : outputs) {
    if (output.address == nullptr) continue;
    const Status status = write_output(routine, stream, inputs, output, work);
    if (status != kSuccess) return status;
  }
  return kSuccess;
}

Status clear(CUstream stream, void* address, std::uint64_t bytes) noexcept {
  if (address == nullptr || bytes == 0) return kSuccess;
  if (const Status status = check_context(); status != kSuccess) return status;
  const auto there = reinterpret_cast<CUdeviceptr>(address);
  return device().fill(there, 0, bytes, stream) == CUDA_SUCCESS ? kSuccess : kExecutionFailed;
}

Status write_pivots(CUstream stream, void* address, std::int64_t count, std::int64_t matrices,
                    std::uint64_t number_bytes) noexcept {
  if (address == nullptr || count < 1 || matrices < 1) return kSuccess;
  if (const Status status = check_context(); status != kSuccess) return status;
  const std::array<std::uint64_t, kPivotsWords> words{
      reinterpret_cast<std::uintptr_t>(address), static_cast<std::uint64_t>(count),
      static_cast<std::uint64_t>(matrices), number_bytes};
  return launch_words(device().pivots, stream, {1, 1, 1}, words);
}

Status launch_batched(CUstream stream, const Batched& batched) noexcept {
  if (batched.count == 0) return kSuccess;
  if (const Status status = check_context(); status != kSuccess) return status;
  constexpr std::uint64_t kMostBlocks = 65535;
  const auto blocks = static_cast<unsigned>(std::min(batched.count, kMostBlocks));
  return launch_words(device().batched, stream, {blocks, 1, 1}, words_of(batched));
}

}  // namespace simgpu::cublas

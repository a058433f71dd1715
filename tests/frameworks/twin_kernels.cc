#include "tests/frameworks/twin_kernels.h"

#include <cuda.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <vector>

struct TwinSnapshot {
  std::vector<std::uint8_t> bytes;
  std::atomic<std::uint64_t> references{1};
};

namespace {

/// Few: all operands of a launch have to be on the device at once, beside each other.
constexpr std::size_t kOperandsOfLaunch = 4;

/// The one parameter of both kernels. Addresses lie in it as in the structs of a framework.
struct Parameter {
  std::uint64_t operation;
  std::uint64_t count;
  TwinOperand operands[kOperandsOfLaunch];
};

/// What the kernels have found; the report's own mutex guards it.
struct Findings {
  std::mutex mutex;
  TwinReport report{};
};

Findings& findings() {
  static auto* const values = new Findings;  // never destroyed: streams outlive exit handlers
  return *values;
}

struct Kernels {
  CUcontext context = nullptr;
  CUfunction compare = nullptr;
  CUfunction poke = nullptr;
};

Kernels& kernels() {
  static Kernels values;
  return values;
}

void compare_one(const TwinOperand& operand, std::uint64_t operation) {
  const auto* const device = reinterpret_cast<const std::uint8_t*>(operand.address);
  const std::uint8_t* const twin = operand.snapshot->bytes.data() + operand.offset;
  const bool same = std::memcmp(device, twin, operand.size) == 0;
  Findings& all = findings();
  const std::scoped_lock lock(all.mutex);
  TwinReport& report = all.report;
  ++report.compared;
  report.bytes += operand.size;
  if (same || report.mismatches++ > 0) return;
  const auto* const at = std::mismatch(device, device + operand.size, twin).first;
  report.operation = operation;
  report.name = operand.name;
  report.size = operand.size;
  report.offset = static_cast<std::uint64_t>(at - device);
  report.found = *at;
  report.expected = twin[report.offset];
  report.differing = 0;
  for (std::uint64_t i = 0; i < operand.size; ++i) report.differing += device[i] != twin[i];
}

void poke_one(const TwinOperand& operand, std::uint64_t /*operation*/) {
  std::memcpy(reinterpret_cast<void*>(operand.address),
              operand.snapshot->bytes.data() + operand.offset, operand.size);
}

template <void (*Do)(const TwinOperand&, std::uint64_t)>
void kernel(const SimgpuLaunch* launch) {
  Parameter parameter;
  std::memcpy(&parameter, launch->arguments[0], sizeof parameter);
  for (std::uint64_t i = 0; i < parameter.count; ++i) {
    Do(parameter.operands[i], parameter.operation);
    twin_release(parameter.operands[i].snapshot);
  }
  Findings& all = findings();
  const std::scoped_lock lock(all.mutex);
  ++all.report.launches;
}

/// Makes the kernels' context current where none is: PyTorch's threads for backward passes begin
/// so.
CUresult ensure_context() {
  CUcontext current = nullptr;
  const CUresult result = cuCtxGetCurrent(&current);
  if (result != CUDA_SUCCESS || current != nullptr) return result;
  return cuCtxSetCurrent(kernels().context);
}

CUresult launch(CUfunction function, void* stream, const TwinOperand* operands, std::size_t count,
                std::uint64_t operation) {
  if (const CUresult result = ensure_context(); result != CUDA_SUCCESS) return result;
  for (std::size_t first = 0; first < count; first += kOperandsOfLaunch) {
    Parameter parameter{};
    parameter.operation = operation;
    parameter.count = std::min(count - first, kOperandsOfLaunch);
    std::copy_n(operands + first, parameter.count, parameter.operands);
    for (std::uint64_t i = 0; i < parameter.count; ++i) {
      parameter.operands[i].snapshot->references.fetch_add(1, std::memory_order_relaxed);
    }
    void* parameters[] = {&parameter};
    const CUresult result = cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0,
                                           static_cast<CUstream>(stream), parameters, nullptr);
    if (result != CUDA_SUCCESS) {
      for (std::uint64_t i = 0; i < parameter.count; ++i) {
        twin_release(parameter.operands[i].snapshot);
      }
      return result;
    }
  }
  return CUDA_SUCCESS;
}

std::string image() {
  std::string text = ".version 8.0\n.target sm_75\n.address_size 64\n";
  for (const char* const name : {"twin_compare_bytes", "twin_poke_bytes"}) {
    text += std::string(".visible .entry ") + name + "(.param .align 8 .b8 " + name + "_param_0[" +
            std::to_string(sizeof(Parameter)) + "])\n{ ret; }\n";
  }
  return text;
}

}  // namespace

TwinSnapshot* twin_snapshot(const void* bytes, std::size_t size) {
  try {
    auto* const snapshot = new TwinSnapshot;
    const auto* const begin = static_cast<const std::uint8_t*>(bytes);
    snapshot->bytes.assign(begin, begin + size);
    return snapshot;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void twin_release(TwinSnapshot* snapshot) {
  if (snapshot->references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete snapshot;
}

int twin_open() {
  CUmodule module = nullptr;
  CUresult result = cuCtxGetCurrent(&kernels().context);
  if (result == CUDA_SUCCESS) result = cuModuleLoadData(&module, image().c_str());
  if (result == CUDA_SUCCESS) {
    result = cuModuleGetFunction(&kernels().compare, module, "twin_compare_bytes");
  }
  if (result == CUDA_SUCCESS) {
    result = cuModuleGetFunction(&kernels().poke, module, "twin_poke_bytes");
  }
  return result;
}

int twin_compare(void* stream, const TwinOperand* operands, std::size_t count,
                 std::uint64_t operation) {
  return launch(kernels().compare, stream, operands, count, operation);
}

int twin_poke(void* stream, const TwinOperand* operands, std::size_t count,
              std::uint64_t operation) {
  return launch(kernels().poke, stream, operands, count, operation);
}

void twin_report(TwinReport* report) {
  Findings& all = findings();
  const std::scoped_lock lock(all.mutex);
  *report = all.report;
}

extern "C" const SimgpuKernel* simgpu_kernels(std::size_t* count) {
  static const SimgpuKernel kKernels[] = {
      {"twin_compare_bytes", kernel<compare_one>, 2, nullptr},
      {"twin_poke_bytes", kernel<poke_one>, 2, nullptr},
  };
  *count = sizeof kKernels / sizeof *kKernels;
  return kKernels;
}

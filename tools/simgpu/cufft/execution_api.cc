// simgpu's libcufft.so: executions of plans, each one launch.
//
// Operands are void pointers, whatever their type: the binary interface is the same, and the
// kernels have no code that would look at them.
#include <array>

#include "tools/simgpu/cublas/launch.h"
#include "tools/simgpu/cufft/plan.h"
#include "tools/simgpu/cufft/status.h"
#include "tools/simgpu/export.h"
#include "tools/simgpu/host_memory.h"

namespace simgpu::cufft {
namespace {

/// Executes a plan whose sides have real numbers where it is said; of `number_bytes` for a real
/// number, or of any type if that is 0.
Status run_plan(int number, const void* input, void* output, bool reads_real, bool writes_real,
                std::uint64_t real_bytes) {
  const PlanRef plan = find_plan(number);
  if (plan == nullptr || !plan->is_made) return kInvalidPlan;
  const Transform& transform = plan->transform;
  const Side& read = transform.input;
  if (real_bytes != 0 && (read.is_real != reads_real || transform.output.is_real != writes_real ||
                          read.number_bytes != (reads_real ? real_bytes : 2 * real_bytes))) {
    return kInvalidType;
  }
  if (input == nullptr || output == nullptr) return kInvalidValue;
  const bool in_place = input == output;
  const std::array inputs{ProductOperand{input, bytes_of(transform, read, in_place)}};
  const std::array outputs{ProductOperand{output, bytes_of(transform, transform.output, in_place)}};
  const cublas::Status status =
      cublas::execute(cublas::Routine::kFft, plan->stream, inputs, outputs, work_of(transform));
  return status == cublas::kSuccess ? kSuccess : kExecFailed;
}

int run(int number, const void* input, void* output, bool reads_real, bool writes_real,
        std::uint64_t real_bytes) {
  return answer_or<int>(kAllocFailed, [&] {
    return run_plan(number, input, output, reads_real, writes_real, real_bytes);
  });
}

}  // namespace

SIMGPU_EXPORT int cufftExecC2C(int plan, void* input, void* output, int /*direction*/) {
  return run(plan, input, output, false, false, 4);
}
SIMGPU_EXPORT int cufftExecR2C(int plan, void* input, void* output) {
  return run(plan, input, output, true, false, 4);
}
SIMGPU_EXPORT int cufftExecC2R(int plan, void* input, void* output) {
  return run(plan, input, output, false, true, 4);
}
SIMGPU_EXPORT int cufftExecZ2Z(int plan, void* input, void* output, int /*direction*/) {
  return run(plan, input, output, false, false, 8);
}
SIMGPU_EXPORT int cufftExecD2Z(int plan, void* input, void* output) {
  return run(plan, input, output, true, false, 8);
}
SIMGPU_EXPORT int cufftExecZ2D(int plan, void* input, void* output) {
  return run(plan, input, output, false, true, 8);
}
SIMGPU_EXPORT int cufftXtExec(int plan, void* input, void* output, int /*direction*/) {
  return run(plan, input, output, false, false, 0);
}

}  // namespace simgpu::cufft

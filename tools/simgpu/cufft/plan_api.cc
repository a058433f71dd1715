// simgpu's libcufft.so: plans. What a plan asks for as its work area is never used, as there are no
// intermediate results, and none is allocated for it.
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tools/simgpu/cublas/launch.h"
#include "tools/simgpu/cublas/number.h"
#include "tools/simgpu/cufft/plan.h"
#include "tools/simgpu/cufft/status.h"
#include "tools/simgpu/export.h"
#include "tools/simgpu/host_memory.h"

namespace simgpu::cufft {
namespace {

#ifndef SIMGPU_CUFFT_VERSION
#define SIMGPU_CUFFT_VERSION 12500
#endif
/// 1000 * major + 100 * minor + patch.
constexpr int kVersion = SIMGPU_CUFFT_VERSION;

using Extents = std::vector<std::int64_t>;

/// The extents of one side as a program gives them: null stands for the basic layout.
template <typename Integer>
Extents extents_at(const Integer* first, int rank) {
  if (first == nullptr || rank < 1) return {};
  return Extents(first, first + rank);
}

/// One side, with the layout that a program gives it.
template <typename Integer>
Side side_at(const Integer* storage, int rank, std::int64_t stride, std::int64_t distance) {
  return {8, false, extents_at(storage, rank), stride, distance};
}

/// The transform of `extents` with `type` for its numbers, in the basic layout.
Status basic(Extents extents, int type, std::int64_t batch, Transform* transform) {
  *transform = {std::move(extents), batch, {}, {}};
  return set_type(*transform, type) ? kSuccess : kInvalidType;
}

/// The transform whose sides have their own layouts.
template <typename Integer>
Status many(int rank, const Integer* n, const Side& input, const Side& output, int type,
            std::int64_t batch, Transform* transform) {
  if (n == nullptr || rank < 1) return kInvalidSize;
  *transform = {extents_at(n, rank), batch, input, output};
  return set_type(*transform, type) ? kSuccess : kInvalidType;
}

/// The transform whose sides have numbers of their own types, which cudaDataType_t names.
Status of_types(int rank, const long long* n, const Side& input, int input_type, const Side& output,
                int output_type, std::int64_t batch, Transform* transform) {
  if (n == nullptr || rank < 1) return kInvalidSize;
  *transform = {extents_at(n, rank), batch, input, output};
  transform->input.number_bytes = cublas::bytes_of(input_type);
  transform->output.number_bytes = cublas::bytes_of(output_type);
  transform->input.is_real = !cublas::number_of(input_type).is_complex;
  transform->output.is_real = !cublas::number_of(output_type).is_complex;
  const bool are_known = transform->input.number_bytes != 0 && transform->output.number_bytes != 0;
  return are_known && !(transform->input.is_real && transform->output.is_real) ? kSuccess
                                                                               : kInvalidType;
}

/// Answers how large the work area of `transform` is.
Status size_of(const Transform& transform, std::size_t* work_size) {
  if (!is_valid(transform)) return kInvalidSize;
  if (work_size != nullptr) *work_size = work_area_of(transform);
  return kSuccess;
}

Status create(int* number) {
  if (number == nullptr) return kInvalidPlan;
  if (cublas::check_context() != cublas::kSuccess) return kSetupFailed;
  *number = add_plan();
  return kSuccess;
}

/// @name What the calls do with the transform that `describe` writes to its argument, if it answers
/// that there is one
/// @{
template <typename Describe>
int estimate(std::size_t* work_size, const Describe& describe) {
  return answer_or<int>(kAllocFailed, [&] {
    Transform transform;
    const Status status = describe(&transform);
    return status == kSuccess ? size_of(transform, work_size) : status;
  });
}

/// Gives it to the plan.
template <typename Describe>
int make(int number, std::size_t* work_size, const Describe& describe) {
  return answer_or<int>(kAllocFailed, [&] {
    const PlanRef plan = find_plan(number);
    if (plan == nullptr || plan->is_made) return kInvalidPlan;
    Transform transform;
    Status status = describe(&transform);
    if (status == kSuccess) status = size_of(transform, work_size);
    if (status != kSuccess) return status;
    plan->transform = std::move(transform);
    plan->is_made = true;
    return kSuccess;
  });
}

/// A new plan with it.
template <typename Describe>
int create_made(int* number, const Describe& describe) {
  const int estimated = estimate(nullptr, describe);
  if (estimated != kSuccess) return estimated;
  const int created = answer_or<int>(kAllocFailed, [&] { return create(number); });
  return created == kSuccess ? make(*number, nullptr, describe) : created;
}
/// @}

}  // namespace

SIMGPU_EXPORT int cufftCreate(int* plan) {
  return answer_or<int>(kAllocFailed, [&] { return create(plan); });
}

SIMGPU_EXPORT int cufftDestroy(int plan) { return remove_plan(plan) ? kSuccess : kInvalidPlan; }

SIMGPU_EXPORT int cufftPlan1d(int* plan, int nx, int type, int batch) {
  return create_made(plan,
                     [&](Transform* transform) { return basic({nx}, type, batch, transform); });
}

SIMGPU_EXPORT int cufftPlan2d(int* plan, int nx, int ny, int type) {
  return create_made(plan, [&](Transform* transform) {
    return basic({nx, ny}, type, 1, transform);
  });
}

SIMGPU_EXPORT int cufftPlan3d(int* plan, int nx, int ny, int nz, int type) {
  return create_made(plan, [&](Transform* transform) {
    return basic({nx, ny, nz}, type, 1, transform);
  });
}

SIMGPU_EXPORT int cufftPlanMany(int* plan, int rank, int* n, int* input, int input_stride,
                                int input_distance, int* output, int output_stride,
                                int output_distance, int type, int batch) {
  return create_made(plan, [&](Transform* transform) {
    return many(rank, n, side_at(input, rank, input_stride, input_distance),
                side_at(output, rank, output_stride, output_distance), type, batch, transform);
  });
}

SIMGPU_EXPORT int cufftMakePlan1d(int plan, int nx, int type, int batch, std::size_t* work_size) {
  return make(plan, work_size,
              [&](Transform* transform) { return basic({nx}, type, batch, transform); });
}

SIMGPU_EXPORT int cufftMakePlan2d(int plan, int nx, int ny, int type, std::size_t* work_size) {
  return make(plan, work_size, [&](Transform* transform) {
    return basic({nx, ny}, type, 1, transform);
  });
}

SIMGPU_EXPORT int cufftMakePlan3d(int plan, int nx, int ny, int nz, int type,
                                  std::size_t* work_size) {
  return make(plan, work_size, [&](Transform* transform) {
    return basic({nx, ny, nz}, type, 1, transform);
  });
}

SIMGPU_EXPORT int cufftMakePlanMany(int plan, int rank, int* n, int* input, int input_stride,
                                    int input_distance, int* output, int output_stride,
                                    int output_distance, int type, int batch,
                                    std::size_t* work_size) {
  return make(plan, work_size, [&](Transform* transform) {
    return many(rank, n, side_at(input, rank, input_stride, input_distance),
                side_at(output, rank, output_stride, output_distance), type, batch, transform);
  });
}

SIMGPU_EXPORT int cufftMakePlanMany64(int plan, int rank, long long* n, long long* input,
                                      long long input_stride, long long input_distance,
                                      long long* output, long long output_stride,
                                      long long output_distance, int type, long long batch,
                                      std::size_t* work_size) {
  return make(plan, work_size, [&](Transform* transform) {
    return many(rank, n, side_at(input, rank, input_stride, input_distance),
                side_at(output, rank, output_stride, output_distance), type, batch, transform);
  });
}

SIMGPU_EXPORT int cufftXtMakePlanMany(int plan, int rank, long long* n, long long* input,
                                      long long input_stride, long long input_distance,
                                      int input_type, long long* output, long long output_stride,
                                      long long output_distance, int output_type, long long batch,
                                      std::size_t* work_size, int /*execution_type*/) {
  return make(plan, work_size, [&](Transform* transform) {
    return of_types(rank, n, side_at(input, rank, input_stride, input_distance), input_type,
                    side_at(output, rank, output_stride, output_distance), output_type, batch,
                    transform);
  });
}

/// The work area of what the plan has been made for.
SIMGPU_EXPORT int cufftGetSize(int plan, std::size_t* work_size) {
  const PlanRef found = find_plan(plan);
  if (found == nullptr || !found->is_made) return kInvalidPlan;
  return size_of(found->transform, work_size);
}

SIMGPU_EXPORT int cufftEstimate1d(int nx, int type, int batch, std::size_t* work_size) {
  return estimate(work_size,
                  [&](Transform* transform) { return basic({nx}, type, batch, transform); });
}

SIMGPU_EXPORT int cufftEstimate2d(int nx, int ny, int type, std::size_t* work_size) {
  return estimate(work_size, [&](Transform* transform) {
    return basic({nx, ny}, type, 1, transform);
  });
}

SIMGPU_EXPORT int cufftEstimate3d(int nx, int ny, int nz, int type, std::size_t* work_size) {
  return estimate(work_size, [&](Transform* transform) {
    return basic({nx, ny, nz}, type, 1, transform);
  });
}

SIMGPU_EXPORT int cufftEstimateMany(int rank, int* n, int* input, int input_stride,
                                    int input_distance, int* output, int output_stride,
                                    int output_distance, int type, int batch,
                                    std::size_t* work_size) {
  return estimate(work_size, [&](Transform* transform) {
    return many(rank, n, side_at(input, rank, input_stride, input_distance),
                side_at(output, rank, output_stride, output_distance), type, batch, transform);
  });
}

SIMGPU_EXPORT int cufftGetSize1d(int plan, int nx, int type, int batch, std::size_t* work_size) {
  return find_plan(plan) == nullptr ? kInvalidPlan : cufftEstimate1d(nx, type, batch, work_size);
}

SIMGPU_EXPORT int cufftGetSize2d(int plan, int nx, int ny, int type, std::size_t* work_size) {
  return find_plan(plan) == nullptr ? kInvalidPlan : cufftEstimate2d(nx, ny, type, work_size);
}

SIMGPU_EXPORT int cufftGetSize3d(int plan, int nx, int ny, int nz, int type,
                                 std::size_t* work_size) {
  return find_plan(plan) == nullptr ? kInvalidPlan : cufftEstimate3d(nx, ny, nz, type, work_size);
}

SIMGPU_EXPORT int cufftGetSizeMany(int plan, int rank, int* n, int* input, int input_stride,
                                   int input_distance, int* output, int output_stride,
                                   int output_distance, int type, int batch,
                                   std::size_t* work_size) {
  if (find_plan(plan) == nullptr) return kInvalidPlan;
  return cufftEstimateMany(rank, n, input, input_stride, input_distance, output, output_stride,
                           output_distance, type, batch, work_size);
}

SIMGPU_EXPORT int cufftGetSizeMany64(int plan, int rank, long long* n, long long* input,
                                     long long input_stride, long long input_distance,
                                     long long* output, long long output_stride,
                                     long long output_distance, int type, long long batch,
                                     std::size_t* work_size) {
  if (find_plan(plan) == nullptr) return kInvalidPlan;
  return estimate(work_size, [&](Transform* transform) {
    return many(rank, n, side_at(input, rank, input_stride, input_distance),
                side_at(output, rank, output_stride, output_distance), type, batch, transform);
  });
}

SIMGPU_EXPORT int cufftXtGetSizeMany(int plan, int rank, long long* n, long long* input,
                                     long long input_stride, long long input_distance,
                                     int input_type, long long* output, long long output_stride,
                                     long long output_distance, int output_type, long long batch,
                                     std::size_t* work_size, int /*execution_type*/) {
  if (find_plan(plan) == nullptr) return kInvalidPlan;
  return estimate(work_size, [&](Transform* transform) {
    return of_types(rank, n, side_at(input, rank, input_stride, input_distance), input_type,
                    side_at(output, rank, output_stride, output_distance), output_type, batch,
                    transform);
  });
}

SIMGPU_EXPORT int cufftSetAutoAllocation(int plan, int /*allocate*/) {
  return find_plan(plan) == nullptr ? kInvalidPlan : kSuccess;
}

SIMGPU_EXPORT int cufftSetWorkArea(int plan, void* /*area*/) {
  return find_plan(plan) == nullptr ? kInvalidPlan : kSuccess;
}

SIMGPU_EXPORT int cufftSetStream(int plan, CUstream stream) {
  const PlanRef found = find_plan(plan);
  if (found == nullptr) return kInvalidPlan;
  found->stream = stream;
  return kSuccess;
}

SIMGPU_EXPORT int cufftGetVersion(int* version) {
  if (version == nullptr) return kInvalidValue;
  *version = kVersion;
  return kSuccess;
}

/// `property`: libraryPropertyType, 0 to 2.
SIMGPU_EXPORT int cufftGetProperty(int property, int* value) {
  constexpr std::array kParts{kVersion / 1000, kVersion / 100 % 10, kVersion % 100};
  if (value == nullptr || property < 0 || property >= static_cast<int>(kParts.size())) {
    return kInvalidValue;
  }
  *value = kParts[static_cast<std::size_t>(property)];
  return kSuccess;
}

}  // namespace simgpu::cufft

#include "tools/simgpu/cufft/layout.h"

#include <algorithm>
#include <cstddef>

namespace simgpu::cufft {
namespace {

constexpr std::size_t kMostDimensions = 3;

/// Numbers of a side in dimension `index`.
std::int64_t extent_of(const Transform& transform, const Side& side, std::size_t index) {
  const bool is_half = !side.is_real && (transform.input.is_real || transform.output.is_real);
  const std::int64_t extent = transform.extents[index];
  return is_half && index + 1 == transform.extents.size() ? extent / 2 + 1 : extent;
}

/// Numbers of one transform in the array that has it in dimension `index`.
std::int64_t storage_of(const Transform& transform, const Side& side, std::size_t index,
                        bool in_place) {
  if (!side.storage.empty()) return side.storage[index];
  const std::int64_t extent = extent_of(transform, side, index);
  const bool is_padded = side.is_real && in_place && index + 1 == transform.extents.size();
  return is_padded ? 2 * (extent / 2 + 1) : extent;
}

std::int64_t total(const std::vector<std::int64_t>& extents) {
  std::int64_t count = 1;
  for (const std::int64_t extent : extents) count *= extent;
  return count;
}

bool is_valid_side(const Transform& transform, const Side& side) {
  return side.storage.empty() || (side.storage.size() == transform.extents.size() &&
                                  side.stride > 0 && (side.distance > 0 || transform.batch == 1));
}

}  // namespace

bool set_type(Transform& transform, int type) {
  const bool is_double = type == kD2Z || type == kZ2D || type == kZ2Z;
  if (!is_double && type != kR2C && type != kC2R && type != kC2C) return false;
  const std::uint64_t real = is_double ? 8 : 4;
  transform.input.is_real = type == kR2C || type == kD2Z;
  transform.output.is_real = type == kC2R || type == kZ2D;
  transform.input.number_bytes = transform.input.is_real ? real : 2 * real;
  transform.output.number_bytes = transform.output.is_real ? real : 2 * real;
  return true;
}

bool is_valid(const Transform& transform) {
  const std::vector<std::int64_t>& extents = transform.extents;
  return !extents.empty() && extents.size() <= kMostDimensions && transform.batch > 0 &&
         std::all_of(extents.begin(), extents.end(), [](std::int64_t n) { return n > 0; }) &&
         is_valid_side(transform, transform.input) && is_valid_side(transform, transform.output);
}

std::uint64_t bytes_of(const Transform& transform, const Side& side, bool in_place) {
  std::int64_t last = 0;  // number of a transform, in its array
  std::int64_t all = 1;
  for (std::size_t index = 0; index < transform.extents.size(); ++index) {
    const std::int64_t storage = storage_of(transform, side, index, in_place);
    const std::int64_t extent = extent_of(transform, side, index);
    // The outermost extent of an array does not matter.
    if (index > 0 && storage < extent) return 0;
    last = last * storage + extent - 1;
    all *= storage;
  }
  const bool is_basic = side.storage.empty();
  const std::int64_t distance = is_basic ? all : side.distance;
  const std::int64_t numbers =
      (transform.batch - 1) * distance + last * (is_basic ? 1 : side.stride) + 1;
  return static_cast<std::uint64_t>(numbers) * side.number_bytes;
}

Product work_of(const Transform& transform) {
  const std::int64_t count = total(transform.extents);
  std::uint64_t logarithm = 1;
  while (logarithm < 62 && (std::int64_t{1} << logarithm) < count) ++logarithm;
  // A product of m x n sums of k = 1 step has 2 m n operations.
  const bool is_real = transform.input.is_real || transform.output.is_real;
  const std::uint64_t steps = std::max<std::uint64_t>(5 * logarithm / (is_real ? 4 : 2), 1);
  return {static_cast<std::uint64_t>(count), steps, 1, static_cast<std::uint64_t>(transform.batch),
          transform.input.number_bytes,      false};
}

std::uint64_t work_area_of(const Transform& transform) {
  const std::uint64_t complex_bytes =
      std::max(transform.input.number_bytes, transform.output.number_bytes);
  return static_cast<std::uint64_t>(total(transform.extents) * transform.batch) * complex_bytes;
}

}  // namespace simgpu::cufft

// Fills of device memory.
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "tools/simgpu/driver/copies/fill.h"
#include "tools/simgpu/driver/device/device.h"
#include "tools/simgpu/driver/faults/access_fault.h"
#include "tools/simgpu/driver/graphs/capture.h"
#include "tools/simgpu/driver/launch/kernel_cost.h"
#include "tools/simgpu/driver/memory/host_pages.h"
#include "tools/simgpu/driver/process/configuration.h"
#include "tools/simgpu/driver/process/statistics.h"

namespace simgpu {
namespace {

// The last bytes of a fill are written at its modelled end only, so that a program that forgets to
// wait finds them missing.
constexpr std::uint64_t kFillHeldBack = 4096;

/// A value of 1, 2 or 4 bytes.
struct Pattern {
  std::uint32_t value;
  unsigned size;
};

void fill_bytes(unsigned char* bytes, std::uint64_t size, Pattern pattern) {
  const auto low = static_cast<unsigned char>(pattern.value);
  const bool uniform = pattern.size == 1 ||
                       (pattern.size == 2 && (pattern.value >> 8 & 0xFF) == low) ||
                       (pattern.size == 4 && pattern.value == low * 0x01010101U);
  if (uniform) {
    std::memset(bytes, low, size);
    return;
  }
  for (std::uint64_t done = 0; done < size; done += pattern.size) {
    std::memcpy(bytes + done, &pattern.value, pattern.size);
  }
}

/// One fill while its operation runs.
class FillTask {
 public:
  FillTask(End target, const Box& box, Pattern pattern, int device)
      : target_(std::move(target)), box_(box), pattern_(pattern), device_(device) {}

  /// By what is mapped when the fill is about to begin: a kernel that writes.
  void plan(Operation& operation) {
    const double on_host = target_.share_in_host_pages(box_);
    if (on_host == 0) return;
    const auto bytes = static_cast<double>(box_.bytes());
    written_in_place_ = bytes * on_host;
    const Configuration& rates = configuration();
    operation.duration = static_cast<Nanoseconds>(bytes * (1 - on_host) / rates.fill_gbps);
    operation.link_written = static_cast<Nanoseconds>(
        link_times(rates.card, {.read = 0, .written = written_in_place_}).written);
    use_of_host_pages_ = HostPages::instance().begin_use();
  }

  void run(Nanoseconds start, Nanoseconds end) {
    view_ = View::of(target_, target_.extent(box_), true, device_);
    sleep_until(latest_begin(box_.bytes(), start, end));
    for (std::uint64_t row = 0; row + 1 < box_.height; ++row) fill(row, 0, box_.width);
    fill(box_.height - 1, 0, held_from());
  }

  void finish() {
    if (!(View::of(target_, target_.extent(box_), true, device_) == view_)) {
      throw AccessFault{target_.address, true};
    }
    fill(box_.height - 1, held_from(), box_.width);
    statistics().in_place_written_bytes += static_cast<std::uint64_t>(written_in_place_);
  }

 private:
  [[nodiscard]] std::uint64_t held_from() const {
    return box_.width - std::min(box_.width, kFillHeldBack) / pattern_.size * pattern_.size;
  }
  void fill(std::uint64_t row, std::uint64_t from, std::uint64_t to) const {
    for (std::uint64_t offset = row * target_.pitch + from; from < to;) {
      const View::Piece piece = view_.at(offset);
      const std::uint64_t length = std::min(piece.size, to - from);
      fill_bytes(piece.bytes, length, pattern_);
      offset += length;
      from += length;
    }
  }

  const End target_;
  const Box box_;
  const Pattern pattern_;
  const int device_;
  View view_;
  double written_in_place_ = 0;              ///< bytes
  std::shared_ptr<void> use_of_host_pages_;  ///< none where it fills none
};

End target_of(const FillWork& work) {
  End target;
  target.address = work.address;
  target.pitch = work.pitch;
  target.side = Side::kDevice;
  return target;
}

Operation operation_with(const FillWork& work, const End& target, const Context& context) {
  const Box box = work.box();
  const auto task = std::make_shared<FillTask>(target, box, Pattern{work.value, work.element_size},
                                               context.device().ordinal());
  Operation operation;
  operation.label = work.name;
  operation.engine = Engine::kCompute;
  operation.duration =
      static_cast<Nanoseconds>(static_cast<double>(box.bytes()) / configuration().fill_gbps);
  if (HostPages::instance().any()) {
    operation.plan = [task](Operation& planned) { task->plan(planned); };
  }
  operation.timed_work = [task](Nanoseconds start, Nanoseconds end) { task->run(start, end); };
  operation.finish = [task] { task->finish(); };
  return operation;
}

CUresult fill(const FillWork& work, CUstream handle, NullStream null_stream, Wait wait) {
  SIMGPU_CONTEXT(context);
  StreamPtr stream;
  if (const CUresult result = resolve_stream(*context, handle, null_stream, &stream);
      result != CUDA_SUCCESS) {
    return result;
  }
  if (work.width == 0 || work.height == 0) return CUDA_SUCCESS;
  End target;
  if (const CUresult result = check(work, &target); result != CUDA_SUCCESS) return result;
  if (const auto answer = capture(stream, [&] { return seal(work, *stream); })) return *answer;
  Context& owner = context_of(*stream);
  await_room(stream);
  const CompletionPtr completion = enqueue(stream, operation_with(work, target, owner));
  // Asynchronous even in the synchronous call, unless the target is host memory.
  if (wait == Wait::kAsync || target.side == Side::kDevice) return CUDA_SUCCESS;
  completion->wait();
  return owner.sticky_error();
}

/// Defines `function` for 1-D, which all ABI variants of the driver function `name` share.
#define SIMGPU_FILL(function, name, value_type, wait)                                              \
  CUresult function(std::uint64_t address, value_type value, std::uint64_t count, CUstream stream, \
                    NullStream null_stream) {                                                      \
    SIMGPU_ENTER(name);                                                                            \
    return fill(FillWork{#name, address, 0, value, sizeof(value), count, 1}, stream, null_stream,  \
                wait);                                                                             \
  }                                                                                                \
  static_assert(true, "take a semicolon")

/// As SIMGPU_FILL, for rows.
#define SIMGPU_FILL_2D(function, name, value_type, wait)                                      \
  CUresult function(std::uint64_t address, std::uint64_t pitch, value_type value,             \
                    std::uint64_t width, std::uint64_t height, CUstream stream,               \
                    NullStream null_stream) {                                                 \
    SIMGPU_ENTER(name);                                                                       \
    return fill(FillWork{#name, address, pitch, value, sizeof(value), width, height}, stream, \
                null_stream, wait);                                                           \
  }                                                                                           \
  static_assert(true, "take a semicolon")

SIMGPU_FILL(d8, cuMemsetD8, unsigned char, Wait::kSync);
SIMGPU_FILL(d16, cuMemsetD16, unsigned short, Wait::kSync);
SIMGPU_FILL(d32, cuMemsetD32, unsigned int, Wait::kSync);
SIMGPU_FILL(d8_async, cuMemsetD8Async, unsigned char, Wait::kAsync);
SIMGPU_FILL(d16_async, cuMemsetD16Async, unsigned short, Wait::kAsync);
SIMGPU_FILL(d32_async, cuMemsetD32Async, unsigned int, Wait::kAsync);
SIMGPU_FILL_2D(d2d8, cuMemsetD2D8, unsigned char, Wait::kSync);
SIMGPU_FILL_2D(d2d16, cuMemsetD2D16, unsigned short, Wait::kSync);
SIMGPU_FILL_2D(d2d32, cuMemsetD2D32, unsigned int, Wait::kSync);
SIMGPU_FILL_2D(d2d8_async, cuMemsetD2D8Async, unsigned char, Wait::kAsync);
SIMGPU_FILL_2D(d2d16_async, cuMemsetD2D16Async, unsigned short, Wait::kAsync);
SIMGPU_FILL_2D(d2d32_async, cuMemsetD2D32Async, unsigned int, Wait::kAsync);

}  // namespace

CUresult check(const FillWork& work, End* target) {
  if (work.width > (std::uint64_t{1} << 48)) return CUDA_ERROR_INVALID_VALUE;
  const Box box = work.box();
  const bool misaligned = (work.address | (box.height > 1 ? work.pitch : 0)) % work.element_size;
  if (misaligned || (box.height > 1 && work.pitch < box.width)) return CUDA_ERROR_INVALID_VALUE;
  *target = target_of(work);
  return classify(*target, box, true);
}

Operation operation_of(const FillWork& work, const Context& context) {
  AddressSpace& space = AddressSpace::instance();
  End target = target_of(work);
  if (space.touches_device(work.address, 1)) {
    target.claim = space.claim(work.address);
  } else {
    target.side = Side::kHost;
  }
  return operation_with(work, target, context);
}

/// The four functions of one element type: synchronous (_v2, _v2_ptds), asynchronous (_, _ptsz).
#define SIMGPU_MEMSET_API(name, function, value_type)                                     \
  SIMGPU_STREAM_VARIANTS(name##_v2, _ptds, (CUdeviceptr dst, value_type value, size_t N), \
                         function, dst, value, N, nullptr);                               \
  SIMGPU_STREAM_VARIANTS(name##Async, _ptsz,                                              \
                         (CUdeviceptr dst, value_type value, size_t N, CUstream hStream), \
                         function##_async, dst, value, N, hStream)

/// As SIMGPU_MEMSET_API, for rows.
#define SIMGPU_MEMSET_2D_API(name, function, value_type)                                        \
  SIMGPU_STREAM_VARIANTS(                                                                       \
      name##_v2, _ptds,                                                                         \
      (CUdeviceptr dst, size_t pitch, value_type value, size_t width, size_t height), function, \
      dst, pitch, value, width, height, nullptr);                                               \
  SIMGPU_STREAM_VARIANTS(name##Async, _ptsz,                                                    \
                         (CUdeviceptr dst, size_t pitch, value_type value, size_t width,        \
                          size_t height, CUstream hStream),                                     \
                         function##_async, dst, pitch, value, width, height, hStream)

SIMGPU_MEMSET_API(cuMemsetD8, d8, unsigned char);
SIMGPU_MEMSET_API(cuMemsetD16, d16, unsigned short);
SIMGPU_MEMSET_API(cuMemsetD32, d32, unsigned int);
SIMGPU_MEMSET_2D_API(cuMemsetD2D8, d2d8, unsigned char);
SIMGPU_MEMSET_2D_API(cuMemsetD2D16, d2d16, unsigned short);
SIMGPU_MEMSET_2D_API(cuMemsetD2D32, d2d32, unsigned int);

}  // namespace simgpu

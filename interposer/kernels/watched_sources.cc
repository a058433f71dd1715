#include "interposer/kernels/watched_sources.h"

#include <algorithm>
#include <new>

#include "interposer/driver/in_context.h"
#include "interposer/driver/streams.h"
#include "interposer/driver/table.h"
#include "interposer/kernels/readable_memory.h"

namespace superpipe {

CUevent WatchedSources::mark(StreamHandle stream) noexcept {
  const RelaxedCaptureMode mode;
  CUevent event = nullptr;
  if (driver().cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) return nullptr;
  if (driver().cuEventRecord(event, driver_stream(stream)) == CUDA_SUCCESS) return event;
  (void)driver().cuEventDestroy_v2(event);
  return nullptr;
}

bool WatchedSources::add(const void* data, std::size_t size, std::uint64_t to,
                         CUevent before_copy) noexcept {
  try {
    if (!is_stopped_ && sources_.size() < kMost) {
      sources_.push_back({data, size, to, before_copy, 0});
      return true;
    }
  } catch (const std::bad_alloc&) {
    // It is not watched.
  }
  (void)driver().cuEventDestroy_v2(before_copy);
  return false;
}

// Where the driver does not answer, the copy's context is in no state to go on.
bool WatchedSources::has_begun(const Source& source) noexcept {
  const RelaxedCaptureMode mode;
  return driver().cuEventQuery(source.before_copy) != CUDA_ERROR_NOT_READY;
}

WatchedSources::Read WatchedSources::read(const Source& source) {
  constexpr std::size_t kAtOnce = 4096;
  bytes_.resize(source.size);
  for (std::size_t done = 0; done < source.size;) {
    const std::size_t size = std::min(kAtOnce, source.size - done);
    const auto count = read_if_readable(static_cast<const std::byte*>(source.data) + done,
                                        bytes_.data() + done, size);
    if (!count) return Read::kNotNow;
    if (*count < size) return Read::kGone;
    done += size;
  }
  return Read::kAll;
}

void WatchedSources::remove(std::size_t index) noexcept {
  (void)driver().cuEventDestroy_v2(sources_[index].before_copy);
  sources_.erase(sources_.begin() + static_cast<std::ptrdiff_t>(index));
}

void WatchedSources::stop() noexcept {
  is_stopped_ = true;
  while (!sources_.empty()) remove(sources_.size() - 1);
}

}  // namespace superpipe

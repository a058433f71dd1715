// Green contexts: a part of a device's multiprocessors, with streams of its own, in its primary
// context.
#pragma once

#include <memory>

#include "tools/simgpu/driver/context/context.h"

namespace simgpu {

class Stream;

/// One green context. All that is no stream belongs to the primary context: memory, code, events.
/// Its kernels take as long as on the whole device. Never deleted, only marked destroyed, so that a
/// stale handle is recognised. Thread-safe.
class GreenContext {
 public:
  /// @return null for a device without memory left for its primary context, which it retains.
  static GreenContext* create(Device& device, const CUdevResource& resource);
  /// The one that `handle` names, dead or alive, or null.
  static GreenContext* find(CUgreenCtx handle);
  /// The same for the handle that cuCtxFromGreenCtx gave.
  static GreenContext* find(CUcontext handle);

  /// Releases the primary context. Its streams are detached from then on.
  void destroy();

  [[nodiscard]] Context& primary() const { return primary_; }
  [[nodiscard]] bool alive() const { return alive_.load(std::memory_order_acquire); }
  [[nodiscard]] const CUdevResource& resource() const { return resource_; }
  [[nodiscard]] std::uint64_t id() const { return id_; }
  /// The stream that a null handle means where it is current. It is ordered with no other.
  [[nodiscard]] const std::shared_ptr<Stream>& default_stream() const { return default_stream_; }

  [[nodiscard]] CUgreenCtx handle() { return reinterpret_cast<CUgreenCtx>(this); }
  [[nodiscard]] CUcontext context_handle() { return reinterpret_cast<CUcontext>(&converted_); }

 private:
  GreenContext(Context& primary, const CUdevResource& resource);

  Context& primary_;
  const CUdevResource resource_;
  const std::uint64_t id_;
  std::atomic<bool> alive_{true};
  std::shared_ptr<Stream> default_stream_;
  char converted_ = 0;  ///< has the address that the other handle is
};

/// The green context that is current on the calling thread, or null.
GreenContext* current_green_context() noexcept;

}  // namespace simgpu

// Calls of the driver that may load or unload code.
#pragma once

#include "interposer/context_registry.h"
#include "interposer/driver/capture_count.h"

namespace superpipe {

/// Counts what the calls of its lifetime make loaded code take, or give back, against the budget of
/// the managed state, if there is one and the current context is on its device.
///
/// Nothing is measured while a stream is captured: asking the device is not known to be allowed.
class CodeMeasurement {
 public:
  explicit CodeMeasurement(CodeChange change) noexcept
      : change_(change),
        managed_(CaptureCount::any() ? nullptr
                                     : ContextRegistry::of_process().if_on_current_device()) {
    if (managed_ != nullptr) managed_->unmanaged().begin_code(change_);
  }
  ~CodeMeasurement() {
    if (managed_ != nullptr) managed_->unmanaged().end_code(change_);
  }
  CodeMeasurement(const CodeMeasurement&) = delete;
  CodeMeasurement& operator=(const CodeMeasurement&) = delete;

  /// Whether anything is counted.
  [[nodiscard]] bool counts() const noexcept { return managed_ != nullptr; }

 private:
  const CodeChange change_;
  ManagedContext* const managed_;
};

/// Calls `call`, which may change the code on the device, and counts that.
template <typename Call>
CUresult counting_code(CodeChange change, const Call& call) noexcept {
  const CodeMeasurement measurement(change);
  return call();
}

}  // namespace superpipe

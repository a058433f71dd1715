// Calls of the driver that may load or unload code.
#pragma once

#include "interposer/driver/capture_count.h"
#include "interposer/runtime.h"

namespace superpipe {

/// Counts what the calls of its lifetime make loaded code take, or give back, against the budget of
/// the managed state, if there is one and the current context is on its device.
///
/// Nothing is measured while a stream is captured: asking the device is not known to be allowed.
class CodeMeasurement {
 public:
  explicit CodeMeasurement(CodeChange change) noexcept
      : change_(change), runtime_(CaptureCount::any() ? nullptr : Runtime::if_on_current_device()) {
    if (runtime_ != nullptr) runtime_->unmanaged().begin_code(change_);
  }
  ~CodeMeasurement() {
    if (runtime_ != nullptr) runtime_->unmanaged().end_code(change_);
  }
  CodeMeasurement(const CodeMeasurement&) = delete;
  CodeMeasurement& operator=(const CodeMeasurement&) = delete;

  /// Whether anything is counted.
  [[nodiscard]] bool counts() const noexcept { return runtime_ != nullptr; }

 private:
  const CodeChange change_;
  Runtime* const runtime_;
};

/// Calls `call`, which may change the code on the device, and counts that.
template <typename Call>
CUresult counting_code(CodeChange change, const Call& call) noexcept {
  const CodeMeasurement measurement(change);
  return call();
}

}  // namespace superpipe

// The device memory of code: modules, and the kernels in them that are loaded when first used.
#pragma once

#include "interposer/capture_count.h"
#include "interposer/runtime.h"

namespace superpipe {

/// Counts what the calls of its lifetime make loaded code take, or give back, against the budget of
/// the managed state, if there is one and the current context is on its device.
///
/// Drivers do not say how much that is. It is by how much changes what the device holds besides
/// what is counted anyhow; allocations of other threads or processes just then may be taken for it.
/// Nothing is measured while a stream is captured: asking the device is not known to be allowed.
class CodeMeasurement {
 public:
  explicit CodeMeasurement(CodeChange change) noexcept
      : change_(change), runtime_(CaptureCount::any() ? nullptr : Runtime::if_on_current_device()) {
    if (runtime_ != nullptr) before_ = runtime_->begin_code(change_);
  }
  ~CodeMeasurement() {
    if (runtime_ != nullptr) runtime_->end_code(change_, before_);
  }
  CodeMeasurement(const CodeMeasurement&) = delete;
  CodeMeasurement& operator=(const CodeMeasurement&) = delete;

 private:
  const CodeChange change_;
  Runtime* const runtime_;
  std::optional<Bytes> before_;
};

/// Calls `call`, which may change the code on the device, and counts that.
template <typename Call>
auto counting_code(CodeChange change, const Call& call) noexcept {
  const CodeMeasurement measurement(change);
  return call();
}

}  // namespace superpipe

// The managed context made current for calls of our own.
#pragma once

#include "interposer/driver/cuda_api.h"
#include "interposer/driver/hook_scope.h"
#include "interposer/driver/table.h"

namespace superpipe {

/// Makes the managed context current for one call, and marks the thread as inside our own code.
class InContext {
 public:
  explicit InContext(CUcontext context) noexcept {
    CUcontext current = nullptr;
    if (driver().cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == context) {
      is_current_ = true;
      return;
    }
    pushed_ = driver().cuCtxPushCurrent_v2(context) == CUDA_SUCCESS;
    is_current_ = pushed_;
  }
  ~InContext() {
    CUcontext popped = nullptr;
    if (pushed_) driver().cuCtxPopCurrent_v2(&popped);
  }
  InContext(const InContext&) = delete;
  InContext& operator=(const InContext&) = delete;

  /// False if the driver refused, because the context has been destroyed. (It may also let
  /// destroyed ones be current.)
  [[nodiscard]] bool is_current() const noexcept { return is_current_; }

 private:
  HookScope scope_;
  bool pushed_ = false;
  bool is_current_ = false;
};

/// The thread in relaxed capture mode for calls of our own: while any thread captures a graph, the
/// driver forbids calls that are unsafe for captures to threads in another mode, and ends the
/// capture at one.
class RelaxedCaptureMode {
 public:
  RelaxedCaptureMode() noexcept
      : exchanged_(driver().cuThreadExchangeStreamCaptureMode(&mode_) == CUDA_SUCCESS) {}
  ~RelaxedCaptureMode() {
    if (exchanged_) driver().cuThreadExchangeStreamCaptureMode(&mode_);
  }
  RelaxedCaptureMode(const RelaxedCaptureMode&) = delete;
  RelaxedCaptureMode& operator=(const RelaxedCaptureMode&) = delete;

 private:
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
  bool exchanged_;
};

/// InContext, and in relaxed capture mode.
class InRelaxedContext {
 public:
  explicit InRelaxedContext(CUcontext context) noexcept : in_context_(context) {}

  /// False if the driver refused, because the context has been destroyed. (It may also let
  /// destroyed ones be current.)
  [[nodiscard]] bool is_current() const noexcept { return in_context_.is_current(); }

 private:
  InContext in_context_;
  RelaxedCaptureMode mode_;
};

}  // namespace superpipe

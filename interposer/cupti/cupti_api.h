// CUPTI, NVIDIA's profiling library, as far as superpipe uses it: opened at run time, where it is.
#pragma once

// clang-format off: it decides what cuda.h declares, which CUPTI's headers include.
#include "interposer/driver/cuda_api.h"
// clang-format on

#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_result.h>
#include <cupti_version.h>

#include <array>
#include <span>
#include <string>
#include <variant>

namespace superpipe {

/// Its functions. Tests put others in their place.
struct CuptiApi {
  decltype(&::cuptiGetVersion) cuptiGetVersion;
  decltype(&::cuptiGetResultString) cuptiGetResultString;
  decltype(&::cuptiGetTimestamp) cuptiGetTimestamp;
  decltype(&::cuptiSubscribe) cuptiSubscribe;
  decltype(&::cuptiUnsubscribe) cuptiUnsubscribe;
  decltype(&::cuptiEnableCallback) cuptiEnableCallback;
  decltype(&::cuptiActivityRegisterCallbacks) cuptiActivityRegisterCallbacks;
  decltype(&::cuptiActivitySetAttribute) cuptiActivitySetAttribute;
  decltype(&::cuptiActivityEnable) cuptiActivityEnable;
  decltype(&::cuptiActivityDisable) cuptiActivityDisable;
  decltype(&::cuptiActivityFlushAll) cuptiActivityFlushAll;
  decltype(&::cuptiActivityGetNextRecord) cuptiActivityGetNextRecord;
  decltype(&::cuptiActivityGetNumDroppedRecords) cuptiActivityGetNumDroppedRecords;
};

/// The library's name, and the files that are tried in turn: the one that the process has (PyTorch
/// brings its own) or that the loader finds, then the toolkit's.
inline constexpr const char* kCuptiLibrary = "libcupti.so.13";
inline constexpr std::array kCuptiFiles = {kCuptiLibrary, "/usr/local/cuda/lib64/libcupti.so.13",
                                           "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.13"};

/// Opens the first of `files` that there is, and never closes it. Loads a library: not for a
/// launch.
/// @return why it cannot be had, for the user.
[[nodiscard]] std::variant<CuptiApi, std::string> open_cupti(
    std::span<const char* const> files = kCuptiFiles);

}  // namespace superpipe

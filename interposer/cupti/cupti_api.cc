#include "interposer/cupti/cupti_api.h"

#include <dlfcn.h>

#include <cstdint>
#include <type_traits>

namespace superpipe {
namespace {

/// Versions are numbers such as 130001. Within a major version records keep their layout.
constexpr std::uint32_t kVersionsOfMajor = 10'000;
constexpr std::uint32_t kMajorVersion = CUPTI_API_VERSION / kVersionsOfMajor;

void* open_first_of(std::span<const char* const> files) {
  for (const char* const file : files) {
    if (void* const library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return nullptr;
}

}  // namespace

std::variant<CuptiApi, std::string> open_cupti(std::span<const char* const> files) {
  const std::string name = kCuptiLibrary;
  void* const library = open_first_of(files);
  if (library == nullptr) {
    return name +
           " cannot be opened; the CUDA toolkit has it, and Python's nvidia-cuda-cupti "
           "(name its folder in LD_LIBRARY_PATH)";
  }
  CuptiApi api{};
  std::string missing;
  const auto find = [&](auto& function, const char* symbol) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, symbol));
    if (function == nullptr && missing.empty()) missing = symbol;
  };
  find(api.cuptiGetVersion, "cuptiGetVersion");
  find(api.cuptiGetResultString, "cuptiGetResultString");
  find(api.cuptiGetTimestamp, "cuptiGetTimestamp");
  find(api.cuptiSubscribe, "cuptiSubscribe");
  find(api.cuptiUnsubscribe, "cuptiUnsubscribe");
  find(api.cuptiEnableCallback, "cuptiEnableCallback");
  find(api.cuptiActivityRegisterCallbacks, "cuptiActivityRegisterCallbacks");
  find(api.cuptiActivitySetAttribute, "cuptiActivitySetAttribute");
  find(api.cuptiActivityEnable, "cuptiActivityEnable");
  find(api.cuptiActivityDisable, "cuptiActivityDisable");
  find(api.cuptiActivityFlushAll, "cuptiActivityFlushAll");
  find(api.cuptiActivityGetNextRecord, "cuptiActivityGetNextRecord");
  find(api.cuptiActivityGetNumDroppedRecords, "cuptiActivityGetNumDroppedRecords");
  if (!missing.empty()) return name + " has no " + missing;
  std::uint32_t version = 0;
  if (api.cuptiGetVersion(&version) != CUPTI_SUCCESS ||
      version / kVersionsOfMajor != kMajorVersion) {
    return name + " is of version " + std::to_string(version) +
           ", and superpipe knows those of CUDA " + std::to_string(kMajorVersion);
  }
  return api;
}

}  // namespace superpipe

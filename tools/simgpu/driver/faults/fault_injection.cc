#include "tools/simgpu/driver/faults/fault_injection.h"

#include <dlfcn.h>

#include <charconv>
#include <optional>
#include <vector>

#include "tools/simgpu/driver/context/context.h"
#include "tools/simgpu/driver/process/log.h"

namespace simgpu {
namespace {

struct Fault {
  std::string function;
  CUresult code;
  std::uint64_t first;
  bool from_then_on;
};

std::vector<Fault>& faults() {
  static auto* const list = new std::vector<Fault>;
  return *list;
}

template <typename Number>
bool read_decimal(std::string_view text, Number* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc{} && end == text.data() + text.size();
}

std::optional<CUresult> code_of(std::string_view kind) {
  if (kind == "oom") return CUDA_ERROR_OUT_OF_MEMORY;
  if (kind == "fail") return CUDA_ERROR_UNKNOWN;
  if (kind == "invalid") return CUDA_ERROR_INVALID_VALUE;
  if (kind == "busy") return CUDA_ERROR_NOT_READY;
  if (kind == "unsupported") return CUDA_ERROR_NOT_SUPPORTED;
  if (kind == "illegal") return CUDA_ERROR_ILLEGAL_ADDRESS;
  int number = 0;
  if (read_decimal(kind, &number) && number > 0 && number <= 999) {
    return static_cast<CUresult>(number);
  }
  return std::nullopt;
}

/// Whether this library exports `name` in any ABI version: a fault for a misspelt function would
/// never happen, and a test that waits for it would pass for the wrong reason.
bool is_driver_function(const std::string& name) {
  Dl_info self{};
  if (name.rfind("cu", 0) != 0 ||
      dladdr(reinterpret_cast<void*>(&is_driver_function), &self) == 0) {
    return false;
  }
  void* const library = dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  // Linked into a program, a unit test's, whose symbols say nothing.
  if (library == nullptr) return true;
  bool found = false;
  for (const char* suffix : {"", "_v2", "_v3", "_v4"}) {
    found = found || dlsym(library, (name + suffix).c_str()) != nullptr;
  }
  dlclose(library);
  return found;
}

std::string add_fault(std::string_view item) {
  const std::string quoted = "'" + std::string(item) + "' ";
  const std::size_t colon = item.find(':');
  const std::size_t at = item.find('@');
  if (colon == std::string_view::npos || at == std::string_view::npos || at < colon) {
    return quoted + "is not FUNCTION:KIND@N";
  }
  Fault fault{std::string(item.substr(0, colon)), CUDA_SUCCESS, 0, false};
  const std::optional<CUresult> code = code_of(item.substr(colon + 1, at - colon - 1));
  if (!code) {
    return quoted +
           "has a kind other than oom, fail, invalid, busy, unsupported, illegal, or a "
           "CUresult number";
  }
  fault.code = *code;
  std::string_view count = item.substr(at + 1);
  if (!count.empty() && count.back() == '+') {
    fault.from_then_on = true;
    count.remove_suffix(1);
  }
  if (!read_decimal(count, &fault.first) || fault.first == 0) {
    return quoted + "has no call number from 1 after the @";
  }
  if (!is_driver_function(fault.function)) {
    return quoted + "names no driver function (names go without _v2 or _ptsz)";
  }
  faults().push_back(std::move(fault));
  return {};
}

}  // namespace

std::string set_faults(std::string_view text) {
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const std::string_view item = text.substr(0, comma);
    if (!item.empty()) {
      if (std::string problem = add_fault(item); !problem.empty()) return problem;
    }
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  return {};
}

bool has_faults(std::string_view name) {
  for (const Fault& fault : faults()) {
    if (fault.function == name) return true;
  }
  return false;
}

CUresult injected_fault(std::string_view name, std::uint64_t call) {
  for (const Fault& fault : faults()) {
    if (fault.function != name) continue;
    if (call == fault.first || (fault.from_then_on && call > fault.first)) {
      log_line(LogLevel::kInfo, "%s: call %llu fails with %d as SIMGPU_FAULTS asks",
               fault.function.c_str(), static_cast<unsigned long long>(call),
               static_cast<int>(fault.code));
      if (fault.code == CUDA_ERROR_ILLEGAL_ADDRESS) {
        if (Context* const context = current_context()) context->set_sticky_error(fault.code);
      }
      return fault.code;
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace simgpu

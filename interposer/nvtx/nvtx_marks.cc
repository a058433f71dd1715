#include "interposer/nvtx/nvtx_marks.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/locale/encoding_utf.hpp>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>

#include "interposer/contexts/context_registry.h"
#include "interposer/contexts/managed_context.h"
#include "interposer/driver/hook_scope.h"
#include "interposer/log.h"
#include "interposer/nvtx/open_ranges.h"
#include "profiler/trace_recorder.h"

namespace superpipe {
namespace {

constexpr const char* kVariable = "NVTX_INJECTION64_PATH";
constexpr std::string_view kPluginName = "libsuperpipe.nvtx.so";
/// Of a text; the rest is left out.
constexpr std::size_t kMostTextBytes = 512;

/// Where marks go to; null: nowhere (yet, or any more).
TraceRecorder* recorder() noexcept {
  // The child of a fork records nothing, and a lock may be held there that no thread will release.
  if (hooks_disabled.load(std::memory_order_relaxed)) return nullptr;
  ManagedContext* const managed = ContextRegistry::managed();
  if (managed == nullptr) return nullptr;
  TraceRecorder* const trace = managed->trace();
  return trace != nullptr && trace->is_recording() ? trace : nullptr;
}

/// Strings for which NVTX hands out handles: an equal one has the same handle, which stays valid.
class HandledStrings {
 public:
  /// @return null if there are too many, or no host memory.
  const std::string* handle_of(std::string text) noexcept try {
    if (hooks_disabled.load(std::memory_order_relaxed)) return nullptr;
    text.resize(std::min(text.size(), kMostTextBytes));
    const std::lock_guard lock(mutex_);
    const auto known = strings_.find(text);
    if (known != strings_.end()) return &*known;
    return strings_.size() < kMost ? &*strings_.insert(std::move(text)).first : nullptr;
  } catch (const std::exception&) {
    return nullptr;
  }

 private:
  static constexpr std::size_t kMost = 65'536;
  std::mutex mutex_;
  std::unordered_set<std::string> strings_;
};

// Never destroyed: the program's destructors may mark.
HandledStrings& registered_strings() {
  static auto* const strings = new HandledStrings;
  return *strings;
}
HandledStrings& domain_names() {
  static auto* const names = new HandledStrings;
  return *names;
}

/// The ranges of each thread. They are no thread-local variable: the loader keeps some hundred
/// bytes for those of libraries that are opened later, and these would take them all.
class RangesByThread {
 public:
  RangesByThread() noexcept { has_key_ = ::pthread_key_create(&key_, forget) == 0; }

  /// Of the calling thread; null: it has none, or its end has come.
  [[nodiscard]] OpenRanges* find() const noexcept {
    return has_key_ ? static_cast<OpenRanges*>(::pthread_getspecific(key_)) : nullptr;
  }
  /// The same, made where there are none; null: there is no memory for them.
  [[nodiscard]] OpenRanges* find_or_make() const noexcept {
    if (OpenRanges* const ranges = find(); ranges != nullptr || !has_key_) return ranges;
    auto* const made = new (std::nothrow) OpenRanges;
    if (made != nullptr && ::pthread_setspecific(key_, made) != 0) {
      delete made;
      return nullptr;
    }
    return made;
  }

 private:
  static void forget(void* ranges) noexcept { delete static_cast<OpenRanges*>(ranges); }

  pthread_key_t key_{};
  bool has_key_ = false;
};

// Has no destructor: the program's may mark.
const RangesByThread& ranges_by_thread() {
  static const RangesByThread ranges;
  return ranges;
}

std::atomic<std::uint64_t> last_range{0};

std::string text_of(const char* message) { return message != nullptr ? message : ""; }
std::string text_of(const wchar_t* message) {
  return message != nullptr ? boost::locale::conv::utf_to_utf<char>(message) : "";
}
std::string text_of(const nvtxEventAttributes_t* attributes) {
  if (attributes == nullptr || attributes->size < sizeof(nvtxEventAttributes_v2)) return "";
  switch (attributes->messageType) {
    case NVTX_MESSAGE_TYPE_ASCII:
      return text_of(attributes->message.ascii);
    case NVTX_MESSAGE_TYPE_UNICODE:
      return text_of(attributes->message.unicode);
    case NVTX_MESSAGE_TYPE_REGISTERED: {
      const auto* const text = reinterpret_cast<const std::string*>(attributes->message.registered);
      return text != nullptr ? *text : "";
    }
    default:
      return "";
  }
}

/// The index of a message in the trace; 0 without host memory. A range of a domain bears its name.
template <typename Message>
TraceIndex index_of(TraceRecorder& trace, nvtxDomainHandle_t domain, Message message) noexcept try {
  std::string text = text_of(message);
  const auto* const name = reinterpret_cast<const std::string*>(domain);
  if (name != nullptr && !name->empty()) text = text.empty() ? *name : *name + ": " + text;
  text.resize(std::min(text.size(), kMostTextBytes));
  return trace.intern_text(text);
} catch (const std::exception&) {
  return 0;
}

void tell(TraceRecorder& trace, TraceMark mark) noexcept {
  trace.add(std::chrono::steady_clock::now(), mark);
}

template <typename Message>
void mark(nvtxDomainHandle_t domain, Message message) noexcept {
  if (TraceRecorder* const trace = recorder()) {
    tell(*trace, {TraceMark::kPoint, index_of(*trace, domain, message), 0});
  }
}

template <typename Message>
int push(nvtxDomainHandle_t domain, Message message) noexcept {
  TraceRecorder* const trace = recorder();
  const TraceIndex text = trace != nullptr ? index_of(*trace, domain, message) : 0;
  OpenRanges* const ranges = ranges_by_thread().find_or_make();
  if (ranges == nullptr) return NVTX_NO_PUSH_POP_TRACKING;
  return ranges->push({domain, trace, text}, [trace](const OpenRanges::Range& range) {
    if (trace != nullptr) tell(*trace, {TraceMark::kBegin, range.text, 0});
  });
}

int pop(nvtxDomainHandle_t domain) noexcept {
  TraceRecorder* const trace = recorder();
  // What began before the trace did, or in that of another context, does not end in it.
  const auto begin = [trace](const OpenRanges::Range& range) {
    if (trace != nullptr && range.trace == trace) tell(*trace, {TraceMark::kBegin, range.text, 0});
  };
  const auto end = [trace](const OpenRanges::Range& range) {
    if (trace != nullptr && range.trace == trace) tell(*trace, {TraceMark::kEnd, 0, 0});
  };
  OpenRanges* const ranges = ranges_by_thread().find();
  return ranges != nullptr ? ranges->pop(domain, begin, end) : -1;
}

template <typename Message>
nvtxRangeId_t start(nvtxDomainHandle_t domain, Message message) noexcept {
  const std::uint64_t range = ++last_range;
  if (TraceRecorder* const trace = recorder()) {
    tell(*trace, {TraceMark::kBegin, index_of(*trace, domain, message), range});
  }
  return range;
}

void end(nvtxRangeId_t range) noexcept {
  TraceRecorder* const trace = recorder();
  if (trace != nullptr && range != 0) tell(*trace, {TraceMark::kEnd, 0, range});
}

template <typename Handle, typename Message>
Handle handle_of(HandledStrings& strings, Message message) noexcept try {
  return reinterpret_cast<Handle>(const_cast<std::string*>(strings.handle_of(text_of(message))));
} catch (const std::exception&) {
  return nullptr;
}

// -- the functions that NVTX calls

constexpr nvtxDomainHandle_t kDefault = nullptr;
using Attributes = const nvtxEventAttributes_t*;

/// NVTX's place for each function of a module, by its number; what it has no place for is left out.
class FunctionTable {
 public:
  FunctionTable(const NvtxExportTableCallbacks& callbacks, NvtxCallbackModule module) noexcept {
    if (callbacks.GetModuleFunctionTable(module, &places_, &size_) != 1) size_ = 0;
  }
  [[nodiscard]] bool has_functions() const noexcept { return size_ > 0; }

  template <typename Function>
  void set(unsigned number, Function function) noexcept {
    if (number >= size_ || places_[number] == nullptr) return;
    *places_[number] = reinterpret_cast<NvtxFunctionPointer>(function);
  }

 private:
  NvtxFunctionTable places_ = nullptr;
  unsigned size_ = 0;
};

void set_core(FunctionTable table) noexcept {
  table.set(
      NVTX_CBID_CORE_MarkEx, +[](Attributes message) { mark(kDefault, message); });
  table.set(
      NVTX_CBID_CORE_MarkA, +[](const char* message) { mark(kDefault, message); });
  table.set(
      NVTX_CBID_CORE_MarkW, +[](const wchar_t* message) { mark(kDefault, message); });
  table.set(
      NVTX_CBID_CORE_RangeStartEx, +[](Attributes message) { return start(kDefault, message); });
  table.set(
      NVTX_CBID_CORE_RangeStartA, +[](const char* message) { return start(kDefault, message); });
  table.set(
      NVTX_CBID_CORE_RangeStartW, +[](const wchar_t* message) { return start(kDefault, message); });
  table.set(
      NVTX_CBID_CORE_RangeEnd, +[](nvtxRangeId_t range) { end(range); });
  table.set(
      NVTX_CBID_CORE_RangePushEx, +[](Attributes message) { return push(kDefault, message); });
  table.set(
      NVTX_CBID_CORE_RangePushA, +[](const char* message) { return push(kDefault, message); });
  table.set(
      NVTX_CBID_CORE_RangePushW, +[](const wchar_t* message) { return push(kDefault, message); });
  table.set(
      NVTX_CBID_CORE_RangePop, +[] { return pop(kDefault); });
}

void set_domains(FunctionTable table) noexcept {
  using Domain = nvtxDomainHandle_t;
  table.set(
      NVTX_CBID_CORE2_DomainMarkEx,
      +[](Domain domain, Attributes message) { mark(domain, message); });
  table.set(
      NVTX_CBID_CORE2_DomainRangeStartEx,
      +[](Domain domain, Attributes message) { return start(domain, message); });
  table.set(
      NVTX_CBID_CORE2_DomainRangeEnd, +[](Domain, nvtxRangeId_t range) { end(range); });
  table.set(
      NVTX_CBID_CORE2_DomainRangePushEx,
      +[](Domain domain, Attributes message) { return push(domain, message); });
  table.set(
      NVTX_CBID_CORE2_DomainRangePop, +[](Domain domain) { return pop(domain); });
  table.set(
      NVTX_CBID_CORE2_DomainRegisterStringA, +[](Domain, const char* message) {
        return handle_of<nvtxStringHandle_t>(registered_strings(), message);
      });
  table.set(
      NVTX_CBID_CORE2_DomainRegisterStringW, +[](Domain, const wchar_t* message) {
        return handle_of<nvtxStringHandle_t>(registered_strings(), message);
      });
  table.set(
      NVTX_CBID_CORE2_DomainCreateA,
      +[](const char* name) { return handle_of<Domain>(domain_names(), name); });
  table.set(
      NVTX_CBID_CORE2_DomainCreateW,
      +[](const wchar_t* name) { return handle_of<Domain>(domain_names(), name); });
}

// The plugin's path; nullopt if it is not beside this library.
std::optional<std::string> plugin_path() {
  Dl_info library{};
  if (::dladdr(reinterpret_cast<const void*>(&attach_to_nvtx), &library) == 0) return std::nullopt;
  const auto path = std::filesystem::absolute(library.dli_fname).parent_path() / kPluginName;
  if (::access(path.c_str(), R_OK) != 0) return std::nullopt;
  return path.string();
}

}  // namespace

void offer_to_nvtx() noexcept try {
  const auto plugin = plugin_path();
  const char* const chosen = std::getenv(kVariable);
  if (!plugin) {
    log_line(LogLevel::kWarning, "the trace will have no NVTX marks: " + std::string(kPluginName) +
                                     " is not beside libsuperpipe.so");
  } else if (chosen == nullptr) {
    ::setenv(kVariable, plugin->c_str(), 1);
  } else if (chosen != *plugin) {
    log_line(LogLevel::kWarning, "the trace will have no NVTX marks: " + std::string(kVariable) +
                                     " names another tool, " + chosen);
  }
} catch (const std::exception& error) {
  log_line(LogLevel::kWarning, std::string("the trace will have no NVTX marks: ") + error.what());
}

bool attach_to_nvtx(NvtxGetExportTableFunc_t table) noexcept {
  if (table == nullptr || hooks_disabled.load()) return false;
  const auto* const callbacks =
      static_cast<const NvtxExportTableCallbacks*>(table(NVTX_ETID_CALLBACKS));
  if (callbacks == nullptr || callbacks->struct_size < sizeof(NvtxExportTableCallbacks)) {
    return false;
  }
  const FunctionTable core(*callbacks, NVTX_CB_MODULE_CORE);
  const FunctionTable domains(*callbacks, NVTX_CB_MODULE_CORE2);
  set_core(core);
  set_domains(domains);
  return core.has_functions() || domains.has_functions();
}

}  // namespace superpipe

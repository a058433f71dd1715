#include "interposer/call_sites.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <span>
#include <string_view>

#include "interposer/log.h"

namespace superpipe {
namespace {

constexpr std::size_t kMostFrames = 64;

/// unw_backtrace() of libunwind; null where there is none.
using Backtrace = int (*)(void** frames, int most);

Backtrace find_backtrace() {
  // The program may have the library already: then this is its own.
  void* const library = ::dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
  void* const found = library != nullptr ? ::dlsym(library, "unw_backtrace") : nullptr;
  if (found == nullptr) {
    log_line(LogLevel::kWarning,
             "traces have no call sites: libunwind.so.8 cannot be opened (Debian: libunwind8)");
  }
  return reinterpret_cast<Backtrace>(found);
}

/// What dladdr() knows of an address, and where the module begins.
struct Frame {
  std::string_view module;
  std::string_view function;
  std::uintptr_t in_module = 0;
  std::uintptr_t in_function = 0;
};

Frame frame_at(const void* address) {
  Dl_info info{};
  Frame frame;
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  frame.in_module = at;
  if (::dladdr(address, &info) == 0) return frame;
  if (info.dli_fname != nullptr) frame.module = info.dli_fname;
  frame.in_module = at - reinterpret_cast<std::uintptr_t>(info.dli_fbase);
  if (info.dli_sname != nullptr) {
    frame.function = info.dli_sname;
    frame.in_function = at - reinterpret_cast<std::uintptr_t>(info.dli_saddr);
  }
  return frame;
}

/// "FUNCTION+0xOFFSET MODULE+0xOFFSET"; a question mark stands for what is not known.
std::string line_of(const Frame& frame) {
  char offset[2 * sizeof(std::uintptr_t) + 4];
  std::string line(frame.function.empty() ? "?" : frame.function);
  if (!frame.function.empty()) {
    std::snprintf(offset, sizeof offset, "+0x%zx", frame.in_function);
    line += offset;
  }
  line += ' ';
  line += frame.module.empty() ? "?" : frame.module;
  std::snprintf(offset, sizeof offset, "+0x%zx", frame.in_module);
  return line + offset;
}

std::uint64_t hash_of(std::span<void* const> frames) {
  std::uint64_t hash = 0xCBF2'9CE4'8422'2325;  // FNV-1a, a word at a time
  for (const void* const frame : frames) {
    hash = (hash ^ reinterpret_cast<std::uintptr_t>(frame)) * 0x9E37'79B9'7F4A'7C15;
    hash ^= hash >> 32;
  }
  return hash;
}

/// What is in this library lies between the program and the trace.
const void* own_module() {
  Dl_info info{};
  return ::dladdr(reinterpret_cast<const void*>(&own_module), &info) != 0 ? info.dli_fbase
                                                                          : nullptr;
}

std::string describe(std::span<void* const> frames) {
  static const void* const own = own_module();
  std::string text;
  bool is_outside = false;
  for (const void* const address : frames) {
    Dl_info info{};
    const bool is_own = ::dladdr(address, &info) != 0 && info.dli_fbase == own;
    is_outside = is_outside || !is_own;
    if (!is_outside) continue;
    if (!text.empty()) text += '\n';
    text += line_of(frame_at(address));
  }
  return text;
}

}  // namespace

TraceIndex call_site_of_hook(TraceRecorder& trace) noexcept try {
  static const Backtrace backtrace = find_backtrace();
  if (backtrace == nullptr) return 0;
  std::array<void*, kMostFrames> addresses;
  const int count = backtrace(addresses.data(), static_cast<int>(addresses.size()));
  if (count <= 0) return 0;
  const auto frames = std::span(addresses).first(static_cast<std::size_t>(count));
  const std::uint64_t hash = hash_of(frames);
  if (const auto known = trace.find_call_site(hash)) return *known;
  return trace.define_call_site(hash, describe(frames));
} catch (const std::exception&) {
  return 0;
}

}  // namespace superpipe

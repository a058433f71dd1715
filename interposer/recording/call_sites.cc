#include "interposer/recording/call_sites.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>

#include "interposer/log.h"

namespace superpipe {
namespace {

/// unw_backtrace() of libunwind; null where there is none.
using Backtrace = int (*)(void** frames, int most);

std::atomic<Backtrace> backtrace{nullptr};
/// Null: the program is no interpreter of Python. Never destroyed: hooks may run until the end.
std::atomic<PythonFrames*> python_frames{nullptr};

/// The function of the interpreter that runs functions of Python, in all versions.
constexpr std::string_view kInterpreterFunction = "_PyEval_EvalFrameDefault+";

void say_that_there_is_none() {
  static std::atomic<bool> was_said{false};
  if (was_said.exchange(true)) return;
  log_line(LogLevel::kWarning,
           "call sites are not known: libunwind.so.8 cannot be opened (Debian: libunwind8)");
}

/// The one that comes along for machines without; null: this is neither a package nor a wheel.
void* open_packed_libunwind() {
  Dl_info own{};
  if (::dladdr(reinterpret_cast<const void*>(&open_packed_libunwind), &own) == 0) return nullptr;
  const auto folder = std::filesystem::path(own.dli_fname).parent_path() / "unwind";
  return ::dlopen((folder / "libunwind.so.8").c_str(), RTLD_NOW | RTLD_LOCAL);
}

std::string hexadecimal(std::uintptr_t offset) {
  char text[2 * sizeof(std::uintptr_t) + 4];
  std::snprintf(text, sizeof text, "+0x%zx", offset);
  return text;
}

const void* module_of(const void* address) {
  Dl_info info{};
  return ::dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

/// What is in this library lies between the program and the trace.
bool is_own(const void* module) {
  static const void* const own = module_of(reinterpret_cast<const void*>(&is_own));
  return module == own;
}

}  // namespace

void open_call_sites() noexcept try {
  // The program may have the library already: then this is its own.
  void* library = ::dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) library = open_packed_libunwind();
  if (library == nullptr) return;
  backtrace.store(reinterpret_cast<Backtrace>(::dlsym(library, "unw_backtrace")));
  if (python_frames.load() == nullptr) python_frames.store(find_python().release());
} catch (const std::exception&) {
  // Out of memory: call sites are not known.
}

std::uint64_t CallSite::hash() const noexcept {
  std::uint64_t hash = 0xCBF2'9CE4'8422'2325;  // FNV-1a, a word at a time
  const auto add = [&hash](std::uint64_t word) {
    hash = (hash ^ word) * 0x9E37'79B9'7F4A'7C15;
    hash ^= hash >> 32;
  };
  for (const void* const frame : frames()) add(reinterpret_cast<std::uintptr_t>(frame));
  for (const PythonFrame& frame : std::span(python).first(python_count)) {
    add(reinterpret_cast<std::uintptr_t>(frame.code) + static_cast<unsigned>(frame.instruction));
    add(reinterpret_cast<std::uintptr_t>(frame.name));
    add(reinterpret_cast<std::uintptr_t>(frame.file));
  }
  return hash;
}

std::string CallSite::python_lines() const {
  const PythonFrames* const interpreter = python_frames.load(std::memory_order_relaxed);
  if (interpreter == nullptr || python_count == 0) return "";
  return interpreter->describe(std::span(python).first(python_count));
}

CallSite call_site_of_hook() noexcept {
  CallSite site;
  const Backtrace walk = backtrace.load(std::memory_order_relaxed);
  if (walk == nullptr) {
    say_that_there_is_none();
    return site;
  }
  const int count = walk(site.addresses.data(), static_cast<int>(site.addresses.size()));
  site.count = static_cast<std::size_t>(std::max(count, 0));
  PythonFrames* const interpreter = python_frames.load(std::memory_order_relaxed);
  if (interpreter != nullptr) site.python_count = interpreter->walk(site.python);
  return site;
}

TraceIndex call_site_of_hook(TraceRecorder& trace) noexcept try {
  const CallSite site = call_site_of_hook();
  if (site.count == 0) return 0;
  const std::uint64_t hash = site.hash();
  if (const auto known = trace.known_call_site(hash)) return *known;
  return trace.index_of_call_site(hash, site.frames(), site.python_lines());
} catch (const std::bad_alloc&) {
  return 0;
}

std::string FrameNames::describe(std::span<void* const> frames, std::string_view python) {
  std::string text;
  const auto add = [&text](std::string_view line) {
    if (line.empty()) return;
    if (!text.empty()) text += '\n';
    text += line;
  };
  const auto take_line = [&python] {
    const std::string_view line = python.substr(0, python.find('\n'));
    python.remove_prefix(std::min(line.size() + 1, python.size()));
    return line;
  };
  for (void* const address : frames) {
    const std::string& line = line_of(address);
    if (python.empty() || !line.starts_with(kInterpreterFunction)) {
      add(line);
      continue;
    }
    while (!python.empty()) {
      const std::string_view of_function = take_line();
      if (of_function.empty()) break;
      add(of_function);
    }
  }
  while (!python.empty()) add(take_line());
  return text;
}

const std::string& FrameNames::line_of(void* address) {
  const auto [place, is_new] = lines_.try_emplace(address);
  std::string& line = place->second;
  if (!is_new) return line;
  Dl_info info{};
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const bool is_known = ::dladdr(address, &info) != 0;
  if (is_known && is_own(info.dli_fbase)) return line;
  const auto offset_from = [at](const void* start) {
    return hexadecimal(at - reinterpret_cast<std::uintptr_t>(start));
  };
  const bool has_function = is_known && info.dli_sname != nullptr;
  const bool has_module = is_known && info.dli_fname != nullptr;
  line = has_function ? info.dli_sname + offset_from(info.dli_saddr) : "?";
  line += ' ';
  line += (has_module ? info.dli_fname : "?") + offset_from(is_known ? info.dli_fbase : nullptr);
  return line;
}

}  // namespace superpipe

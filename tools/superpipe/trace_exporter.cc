#include "tools/superpipe/trace_exporter.h"

#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

namespace superpipe::cli {
namespace {

std::string hex_text(std::uint64_t number) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  do {
    text.insert(text.begin(), kDigits[number & 15]);
    number >>= 4;
  } while (number != 0);
  return "0x" + text;
}

std::string demangled(std::string_view name) {
  std::string text(name);
  if (text.rfind("_Z", 0) != 0) return text;
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> readable(
      abi::__cxa_demangle(text.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 && readable ? std::string(readable.get()) : text;
}

bool is_of_runtime(const CallFrame& frame) {
  return frame.function.starts_with("cuda") ||
         frame.place.find("/libcudart.so") != std::string::npos;
}

// What the names of functions begin with through which PyTorch makes every tensor. They only pass
// the size on, and say nothing of what the memory is for.
constexpr std::array<std::string_view, 5> kAllocatorsOfFrameworks = {
    "c10::", "at::detail::empty", "at::native::empty", "at::_ops::empty", "at::empty"};

bool is_of_allocator(const CallFrame& frame) {
  return std::ranges::any_of(kAllocatorsOfFrameworks, [&](std::string_view start) {
    return frame.function.starts_with(start);
  });
}

// Folders of frameworks where they are installed, as site-packages or dist-packages, and what
// stands for modules that came with the interpreter: functions there pass on what the program asks
// for.
constexpr std::array<std::string_view, 5> kModulesOfFrameworks = {
    "-packages/torch/", "-packages/jax/", "-packages/jaxlib/", "-packages/tensorflow/", "<frozen "};

bool is_of_framework(const CallFrame& frame) {
  return std::ranges::any_of(kModulesOfFrameworks, [&](std::string_view part) {
    return frame.place.find(part) != std::string::npos;
  });
}

// The line of "FILE:LINE"; 0: it is not of this kind.
std::uint64_t line_of(std::string_view place) {
  const auto colon = place.rfind(':');
  if (colon == std::string_view::npos) return 0;
  const std::string_view digits = place.substr(colon + 1);
  std::uint64_t line = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), line);
  return error == std::errc{} && end == digits.end() ? line : 0;
}

// Where the place of a call site's line begins: behind the first space, but for functions of native
// code, whose names may have spaces, and end with an offset.
std::size_t begin_of_place(std::string_view line, bool is_python) {
  const bool has_function = !is_python && !line.starts_with("? ");
  const auto offset = has_function ? line.find("+0x") : std::string_view::npos;
  auto space = offset == std::string_view::npos ? offset : line.find(' ', offset);
  if (space == std::string_view::npos) space = line.find(' ');
  return space == std::string_view::npos ? 0 : space + 1;
}

// "MODULE+0xOFFSET" or "FILE:LINE" without the folder.
std::string short_place(const CallFrame& frame) {
  return frame.place.substr(frame.place.rfind('/') + 1);
}

// What the C library calls programs and threads through is on every stack.
bool is_of_start(const CallFrame& frame) {
  return frame.function.starts_with("__libc_start") || frame.function == "_start" ||
         frame.function == "start_thread" || frame.place.find("/libc.so") != std::string::npos;
}

template <typename Map>
const std::string& name_or(const Map& names, TraceIndex index, const std::string& other) {
  const auto known = names.find(index);
  return known == names.end() ? other : known->second;
}

}  // namespace

std::string as_utf8(std::string_view text) {
  using Json = nlohmann::json;
  const auto valid = Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
  return Json::parse(valid).get<std::string>();
}

CallFrame parse_frame(std::string_view line) {
  CallFrame frame;
  frame.line = line_of(line);
  const std::size_t place = begin_of_place(line, frame.is_python());
  frame.place = line.substr(place);
  const std::string_view function = line.substr(0, place == 0 ? 0 : place - 1);
  frame.function = frame.is_python() ? std::string(function)
                                     : demangled(function.substr(0, function.rfind("+0x")));
  // A question mark stands for what is not known.
  if (frame.function.empty() || frame.function == "?") frame.function = frame.place;
  return frame;
}

std::size_t first_frame_of_program(std::span<const CallFrame> frames) {
  const auto first =
      std::ranges::find_if(frames, [](const CallFrame& frame) { return !is_of_runtime(frame); });
  return static_cast<std::size_t>(first - frames.begin());
}

std::string site_title(const std::vector<CallFrame>& frames) {
  if (frames.empty()) return "call site not known";
  const auto python = std::ranges::find_if(frames, &CallFrame::is_python);
  if (python != frames.end()) {
    const auto is_telling = [](const CallFrame& frame) {
      return frame.is_python() && !is_of_framework(frame);
    };
    const auto chosen = std::find_if(python, frames.end(), is_telling);
    const CallFrame& frame = chosen != frames.end() ? *chosen : *python;
    return frame.function + " (" + short_place(frame) + ")";
  }
  const auto is_own = [](const CallFrame& frame) {
    return !is_of_runtime(frame) && !is_of_allocator(frame) && !is_of_start(frame);
  };
  const auto is_telling = [&](const CallFrame& frame) {
    return is_own(frame) && frame.function != frame.place;
  };
  auto chosen = std::ranges::find_if(frames, is_telling);
  if (chosen == frames.end()) chosen = std::ranges::find_if(frames, is_own);
  if (chosen == frames.end()) {
    chosen = std::ranges::find_if_not(frames, is_of_runtime);
  }
  const auto frame = chosen == frames.end() ? frames.begin() : chosen;
  if (frame->function != frame->place) return frame->function;
  // Without a function there is a path; its file says enough. The innermost place may be a function
  // through which the program makes all its buffers: who called that tells them apart.
  const auto caller = std::find_if(frame + 1, frames.end(), is_own);
  std::string title = short_place(*frame);
  if (caller != frames.end()) title += " < " + short_place(*caller);
  return title;
}

std::string_view name_of_wait(std::uint64_t what) {
  switch (what) {
    case TraceWait::kLaunch:
      return "an operation waits";
    case TraceWait::kDevice:
      return "waits for the device";
    case TraceWait::kCopy:
      return "waits for a copy";
    default:
      return "waits";
  }
}

void TraceNames::add(const TraceKernel& kernel) {
  kernels_[kernel.index] =
      kernel.name.empty() ? "kernel " + hex_text(kernel.id) : as_utf8(demangled(kernel.name));
}

void TraceNames::add(const TraceStream& stream) {
  std::string name = "stream " + hex_text(stream.handle);
  // What cudaStreamLegacy and cudaStreamPerThread are; CUDA Driver API, CU_STREAM_LEGACY.
  if (stream.handle <= 1) name = "default stream";
  if (stream.handle == 2) name = "default stream of the thread";
  streams_[stream.index] = std::move(name);
}

void TraceNames::add(const TraceCallSite& site) {
  std::vector<CallFrame>& frames = sites_[site.index];
  frames.clear();
  const std::string text = as_utf8(site.frames);
  std::string_view left = text;
  while (!left.empty()) {
    const auto end = std::min(left.find('\n'), left.size());
    if (end > 0) frames.push_back(parse_frame(left.substr(0, end)));
    left.remove_prefix(std::min(end + 1, left.size()));
  }
}

void TraceNames::add(const TraceText& text) { texts_[text.index] = as_utf8(text.text); }

void TraceNames::add(const TraceThread& thread) {
  if (thread.id != 0) threads_[thread.index] = thread.id;
}

const std::string& TraceNames::kernel(TraceIndex index) const {
  static const std::string unknown = "unknown kernel";
  return name_or(kernels_, index, unknown);
}

const std::string& TraceNames::stream(TraceIndex index) const {
  static const std::string unknown = "unknown stream";
  return name_or(streams_, index, unknown);
}

const std::string& TraceNames::text(TraceIndex index) const {
  static const std::string unknown = "unnamed";
  return name_or(texts_, index, unknown);
}

std::string TraceNames::thread(TraceIndex index) const {
  const std::uint32_t id = thread_id(index);
  return id == 0 ? "threads not known" : "thread " + std::to_string(id);
}

std::uint32_t TraceNames::thread_id(TraceIndex index) const {
  const auto known = threads_.find(index);
  return known == threads_.end() ? 0 : known->second;
}

const std::vector<CallFrame>& TraceNames::frames(TraceIndex index) const {
  static const std::vector<CallFrame> none;
  const auto known = sites_.find(index);
  return known == sites_.end() ? none : known->second;
}

std::optional<LiveAllocation> LiveAllocations::add(const TraceAllocation& event) {
  const LiveAllocation allocation{++count_, event};
  const auto put = [&](auto& map, auto key) -> std::optional<LiveAllocation> {
    const auto [place, is_new] = map.try_emplace(key, allocation);
    if (is_new) return std::nullopt;
    return std::exchange(place->second, allocation);
  };
  return event.buffer == kNoBuffer ? put(by_address_, event.address)
                                   : put(by_buffer_, index_of(event.buffer));
}

std::optional<LiveAllocation> LiveAllocations::remove(const TraceFree& event) {
  const auto take = [](auto& map, auto key) -> std::optional<LiveAllocation> {
    const auto place = map.find(key);
    if (place == map.end()) return std::nullopt;
    const LiveAllocation allocation = place->second;
    map.erase(place);
    return allocation;
  };
  return event.buffer == kNoBuffer ? take(by_address_, event.address)
                                   : take(by_buffer_, index_of(event.buffer));
}

const LiveAllocation* LiveAllocations::find(BufferId buffer) const {
  const auto place = by_buffer_.find(index_of(buffer));
  return place == by_buffer_.end() ? nullptr : &place->second;
}

void RecentLaunches::add(const TraceLaunch& event) {
  Slot& slot = launches_[event.launch.value % kKept];
  slot.number = event.launch.value;
  slot.kernel = event.kernel;
  slot.stream = event.stream;
  slot.is_used = true;
}

const RecentLaunches::Launch* RecentLaunches::find(TraceCount launch) const {
  const Slot& slot = launches_[launch.value % kKept];
  return slot.is_used && slot.number == launch.value ? &slot : nullptr;
}

}  // namespace superpipe::cli

#include "profiler/trace_recorder.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <thread>

namespace superpipe {
namespace {

/// Recorders are told apart by number: another one may lie at the same address later.
std::uint64_t next_recorder() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

/// `time`, rounded down to a step.
std::int64_t in_steps(std::int64_t time) {
  constexpr std::int64_t kStep = TraceRecorder::kTimeStep.count();
  static_assert((kStep & (kStep - 1)) == 0);
  return time & -kStep;
}

/// gettid(), which glibc has since 2.30 alone.
pid_t own_thread() { return static_cast<pid_t>(::syscall(SYS_gettid)); }

}  // namespace

thread_local constinit TraceRecorder::Current TraceRecorder::current_;
thread_local TraceRecorder::ThreadRings TraceRecorder::thread_rings_;

TraceRecorder::ThreadRings::~ThreadRings() {
  current_.has_ended = true;
  if (own_thread() == ::getpid()) {
    // The main thread's end before the program's static objects do, whose destructors may free
    // memory: its rings stay as long as the process.
    static constinit decltype(rings)* kept = nullptr;
    kept = new (std::nothrow) decltype(rings)(std::move(rings));
    if (kept != nullptr) return;
  }
  // Destructors of the thread's that run later may still record; that is lost.
  current_ = {0, nullptr, true};
  for (const auto& [recorder, ring] : rings) ring->retire();
}

TraceRecorder::TraceRecorder(TraceSink& sink, TimePoint start, Options options)
    : sink_(sink),
      start_(start),
      options_(std::move(options)),
      id_(next_recorder()),
      writer_(sink_),
      flushed_(start) {}

TraceRecorder::~TraceRecorder() = default;

std::optional<std::string> TraceRecorder::begin(
    std::span<const std::pair<std::string, std::string>> properties) {
  for (const auto& [key, value] : properties) writer_.add_property(key, value);
  writer_.begin();
  if (!writer_.problem()) is_recording_.store(true);
  bytes_.store(writer_.bytes());
  return writer_.problem();
}

// The first event of a thread, or the first after it recorded elsewhere.
TraceRing* TraceRecorder::begin_thread() noexcept {
  TraceRing* ring = nullptr;
  try {
    if (!current_.has_ended) ring = find_or_make_ring();
  } catch (const std::bad_alloc&) {
    // The event is lost.
  }
  if (ring == nullptr) {
    lost_.fetch_add(1, std::memory_order_relaxed);
  } else {
    current_ = {id_, ring, false};
  }
  return ring;
}

TraceRing* TraceRecorder::find_or_make_ring() {
  auto& rings = thread_rings_.rings;
  for (const auto& [recorder, ring] : rings) {
    if (recorder == id_) return ring.get();
  }
  // Those that no recorder holds any more.
  std::erase_if(rings, [](const auto& ring) { return ring.second.use_count() == 1; });
  const auto ring = std::make_shared<TraceRing>(options_.ring_bytes);
  rings.reserve(rings.size() + 1);
  {
    const std::lock_guard lock(mutex_);
    begun_.push_back({ring, ++threads_, static_cast<std::uint32_t>(own_thread())});
  }
  rings.emplace_back(id_, ring);
  return ring.get();
}

TraceIndex TraceRecorder::intern_text(std::string_view text) noexcept try {
  const std::lock_guard lock(mutex_);
  std::string kept(text.substr(0, TraceWriter::kMostTextBytes));
  auto known = texts_.find(kept);
  if (known == texts_.end() && texts_.size() >= kMostTexts) {
    kept = kTextOfOthers;
    known = texts_.find(kept);
  }
  if (known != texts_.end()) return known->second;
  const auto index = static_cast<TraceIndex>(texts_.size() + 1);
  new_texts_.emplace_back(index, kept);
  texts_.emplace(std::move(kept), index);
  return index;
} catch (const std::bad_alloc&) {
  return 0;
}

std::optional<TraceIndex> TraceRecorder::known_call_site(std::uint64_t hash) const noexcept {
  const std::lock_guard lock(mutex_);
  const auto known = call_sites_.find(hash);
  return known != call_sites_.end() ? std::optional(known->second) : std::nullopt;
}

TraceIndex TraceRecorder::index_of_call_site(std::uint64_t hash, std::span<void* const> frames,
                                             std::string note) noexcept try {
  const std::lock_guard lock(mutex_);
  const auto known = call_sites_.find(hash);
  if (known != call_sites_.end()) return known->second;
  const auto index = static_cast<TraceIndex>(call_sites_.size() + 1);
  new_call_sites_.push_back({index, {frames.begin(), frames.end()}, std::move(note)});
  call_sites_.emplace(hash, index);
  return index;
} catch (const std::bad_alloc&) {
  return 0;
}

void TraceRecorder::run() noexcept {
  while (!ended_.load() && is_recording()) {
    std::this_thread::sleep_for(options_.rest);
    const auto now = std::chrono::steady_clock::now();
    const bool flush = now - flushed_ >= options_.chunk_time;
    if (flush) flushed_ = now;
    write(flush);
  }
}

void TraceRecorder::write(bool flush) noexcept {
  try {
    write_round(flush);
  } catch (const std::bad_alloc&) {
    // What could not be written now stays in the rings, except the event that met this.
  }
  events_.store(writer_.events(), std::memory_order_relaxed);
  bytes_.store(writer_.bytes(), std::memory_order_relaxed);
}

bool TraceRecorder::finish(TimePoint now) noexcept {
  const bool was_recording = is_recording_.exchange(false);
  if (!was_recording) return false;
  write(true);
  writer_.finish(std::max(nanoseconds(now), last_time_), dropped_.load());
  if (writer_.problem()) options_.on_problem(*writer_.problem());
  bytes_.store(writer_.bytes(), std::memory_order_relaxed);
  // Threads that live on keep their rings until they record elsewhere.
  threads_known_.clear();
  return !writer_.problem();
}

TraceTotals TraceRecorder::totals() const noexcept {
  return {events_.load(std::memory_order_relaxed), dropped_.load(std::memory_order_relaxed),
          bytes_.load(std::memory_order_relaxed)};
}

// Writes all that the rings hold now, in the order of time. An event that a thread is adding at
// this moment comes in the next round, and may then be older than the last of this one.
void TraceRecorder::write_round(bool flush) {
  {
    const std::lock_guard lock(mutex_);
    threads_known_.insert(threads_known_.end(), begun_.begin(), begun_.end());
    begun_.clear();
  }
  for (Recording& thread : threads_known_) thread.end = thread.ring->end();
  // After that: what an event in a ring names has been told before.
  write_definitions();
  while (Recording* const next = earliest()) {
    write_record(*next, next->ring->front(next->end));
    next->ring->pop();
  }
  note_dropped();
  forget_ended_threads();
  if (flush) writer_.flush();
  if (writer_.problem() && is_recording_.exchange(false)) {
    options_.on_problem(*writer_.problem());
  }
}

// The thread whose next event is the oldest; null: there are no more. Few threads record at a time.
TraceRecorder::Recording* TraceRecorder::earliest() {
  Recording* first = nullptr;
  std::int64_t first_time = 0;
  for (Recording& thread : threads_known_) {
    const std::byte* const record = thread.ring->front(thread.end);
    if (record == nullptr) continue;
    RawHeader header;
    std::memcpy(&header, record, sizeof header);
    if (first != nullptr && header.time >= first_time) continue;
    first = &thread;
    first_time = header.time;
  }
  return first;
}

void TraceRecorder::write_definitions() {
  std::vector<std::pair<TraceIndex, std::string>> texts;
  std::vector<NewCallSite> call_sites;
  {
    const std::lock_guard lock(mutex_);
    texts.swap(new_texts_);
    call_sites.swap(new_call_sites_);
  }
  for (const auto& [index, text] : texts) writer_.define(TraceText{index, text});
  for (const NewCallSite& site : call_sites) {
    writer_.define(TraceCallSite{site.index, frames_of(site)});
  }
}

// An event may name the site: it is defined also where there is no memory for its frames.
std::string TraceRecorder::frames_of(const NewCallSite& site) const noexcept try {
  std::string text = options_.call_site_frames(site.frames, site.note);
  if (text.size() <= TraceWriter::kMostTextBytes) return text;
  // Half a line would read as another one.
  const auto end = text.rfind('\n', TraceWriter::kMostTextBytes);
  text.resize(end != std::string::npos ? end : 0);
  return text;
} catch (const std::bad_alloc&) {
  return "";
}

void TraceRecorder::write_record(Recording& from, const std::byte* record) {
  RawHeader header;
  std::memcpy(&header, record, sizeof header);
  // A thread that comes to another processor may find its TickClock a little behind.
  header.time = std::max(header.time, from.last_time);
  from.last_time = header.time;
  last_time_ = std::max(last_time_, header.time);
  if (!from.is_told) {
    writer_.define(TraceThread{from.index, from.thread});
    from.is_told = true;
  }
  for_each_trace_type([&]<typename Event>() {
    if constexpr (std::is_trivially_copyable_v<Event> && Event::kType >= kFirstTimedTraceType) {
      if (header.type == Event::kType) write_event<Event>(header, from.index, record);
    }
  });
}

template <typename Event>
void TraceRecorder::write_event(const RawHeader& header, std::uint32_t thread,
                                const std::byte* record) {
  const TraceMoment when{in_steps(header.time), thread};
  if constexpr (requires(Event event) { event.buffers; }) {
    RawUse raw;
    std::memcpy(&raw, record, sizeof raw);
    Event event;
    event.buffers = {reinterpret_cast<const BufferId*>(record + sizeof raw), header.count};
    event.stream = index_of_stream(raw.stream);
    if constexpr (std::is_same_v<Event, TraceLaunch>) {
      event.launch.value = raw.number;
      event.kernel = index_of_kernel(KernelId{raw.kernel});
    } else {
      event.writes = raw.number != 0;
    }
    writer_.add(when, event);
  } else {
    Raw<Event> raw;
    std::memcpy(&raw, record, sizeof raw);
    if constexpr (requires { raw.event.stream; }) {
      if (raw.event.stream != 0) raw.event.stream = index_of_stream(raw.handle);
    }
    if constexpr (std::is_same_v<Event, TraceKernelTime>) {
      raw.event.kernel = index_of_kernel(KernelId{raw.handle});
    }
    writer_.add(when, raw.event);
  }
}

TraceIndex TraceRecorder::index_of_kernel(KernelId kernel) {
  const auto known = kernels_.find(kernel);
  if (known != kernels_.end()) return known->second;
  const auto next = static_cast<TraceIndex>(kernels_.size() + 1);
  std::string name = options_.kernel_name(kernel);
  name.resize(std::min(name.size(), TraceWriter::kMostTextBytes));
  writer_.define(TraceKernel{next, static_cast<std::uint64_t>(kernel), name});
  kernels_.emplace(kernel, next);
  return next;
}

TraceIndex TraceRecorder::index_of_stream(std::uint64_t handle) {
  const auto next = static_cast<TraceIndex>(streams_.size() + 1);
  const auto [place, is_new] = streams_.try_emplace(handle, next);
  if (is_new) writer_.define(TraceStream{next, handle});
  return place->second;
}

// Tells readers where events are missing.
void TraceRecorder::note_dropped() {
  std::uint64_t dropped = dropped_of_ended_ + lost_.load(std::memory_order_relaxed);
  for (const Recording& thread : threads_known_) dropped += thread.ring->dropped();
  if (dropped == told_dropped_) return;
  writer_.add({in_steps(last_time_), 0}, TraceDropped{dropped - told_dropped_});
  told_dropped_ = dropped;
  dropped_.store(dropped, std::memory_order_relaxed);
}

void TraceRecorder::forget_ended_threads() {
  std::erase_if(threads_known_, [this](const Recording& thread) {
    // Retired first: then nothing comes after it was found empty.
    if (!thread.ring->is_retired() || !thread.ring->is_empty()) return false;
    dropped_of_ended_ += thread.ring->dropped();
    return true;
  });
}

}  // namespace superpipe

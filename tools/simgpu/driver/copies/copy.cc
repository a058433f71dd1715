#include "tools/simgpu/driver/copies/copy.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "tools/simgpu/driver/device/device.h"
#include "tools/simgpu/driver/faults/access_fault.h"
#include "tools/simgpu/driver/graphs/capture.h"
#include "tools/simgpu/driver/graphs/graph_allocation.h"
#include "tools/simgpu/driver/memory/host_pages.h"
#include "tools/simgpu/driver/memory/memory_pool.h"
#include "tools/simgpu/driver/process/configuration.h"
#include "tools/simgpu/driver/process/statistics.h"

namespace simgpu {
namespace {

// The first bytes of a linear copy are read at its modelled start and the last at its end, and both
// are written at its end: a program that waits neither for the copy nor for what it reads sees
// wrong bytes.
constexpr std::uint64_t kHeldBack = 4096;
// Pageable sources up to this size are staged before an asynchronous call returns; the driver's
// staging buffers are finite too, and larger copies wait.
constexpr std::uint64_t kLargestStaged = std::uint64_t{64} << 20;

std::atomic<double> bytes_per_ns{4.0};

void copy_bytes(const View& target, std::uint64_t target_offset, const View& source,
                std::uint64_t source_offset, std::uint64_t size) {
  while (size != 0) {
    const View::Piece to = target.at(target_offset);
    const View::Piece from = source.at(source_offset);
    const std::uint64_t length = std::min({to.size, from.size, size});
    std::memmove(to.bytes, from.bytes, length);
    target_offset += length;
    source_offset += length;
    size -= length;
  }
}

Engine engine_of(const End& target, const End& source) {
  if (target.side == Side::kDevice) {
    return source.side == Side::kDevice ? Engine::kCompute : Engine::kHostToDevice;
  }
  return source.side == Side::kDevice ? Engine::kDeviceToHost : Engine::kNone;
}

bool is_pageable(const End& end) { return end.side == Side::kHost && !end.pinned; }

/// REQUIRES: not Engine::kNone.
double rate_of(Engine engine, const End& target, const End& source) {
  const Configuration& rates = configuration();
  if (engine == Engine::kHostToDevice) {
    return is_pageable(source) ? rates.pageable_gbps : rates.card.h2d_gbps;
  }
  if (engine == Engine::kDeviceToHost) {
    return is_pageable(target) ? std::min(rates.pageable_gbps, rates.card.d2h_gbps)
                               : rates.card.d2h_gbps;
  }
  return rates.d2d_gbps;
}

Nanoseconds duration_of(Engine engine, const End& target, const End& source, std::uint64_t bytes) {
  if (engine == Engine::kNone) return 0;  // not modelled: the host copies at its own speed
  return static_cast<Nanoseconds>(static_cast<double>(bytes) / rate_of(engine, target, source) +
                                  configuration().card.copy_ns);
}

/// One copy while its operation runs. Shared by the operation's two functions.
class CopyTask {
 public:
  CopyTask(const CopyWork& work, int device)
      : target_(work.target),
        source_(work.source),
        box_(work.box),
        engine_(engine_of(work.target, work.source)),
        device_(device) {}

  /// Keeps the source's bytes, so that the caller may change them.
  void stage() {
    staging_.resize(source_.extent(box_));
    std::memcpy(staging_.data(), reinterpret_cast<const void*>(source_.address), staging_.size());
    source_.address = reinterpret_cast<std::uint64_t>(staging_.data());
  }

  /// By what is mapped when the copy is about to begin. Pages on the host are to a copy what pinned
  /// memory is. Parts of different kinds follow each other on the engine of the larger one.
  void plan(Operation& operation) {
    const double target_share = target_.share_in_host_pages(box_);
    const double source_share = source_.share_in_host_pages(box_);
    if (target_share == 0 && source_share == 0) return;
    const double to_host = target_.side == Side::kHost ? 1 : target_share;
    const double from_host = source_.side == Side::kHost ? 1 : source_share;
    const double down = from_host * (1 - to_host);
    const double up = (1 - from_host) * to_host;
    const double within = (1 - from_host) * (1 - to_host);
    const Configuration& rates = configuration();
    const auto bytes = static_cast<double>(box_.bytes());
    if (down + up + within == 0) {
      engine_ = Engine::kNone;
      operation.duration = 0;  // as between other memory of the host
    } else {
      engine_ = down + up == 0 ? Engine::kCompute
                               : (down >= up ? Engine::kHostToDevice : Engine::kDeviceToHost);
      const double ns =
          bytes * (down / rate_of(Engine::kHostToDevice, target_, source_) +
                   up / rate_of(Engine::kDeviceToHost, target_, source_) + within / rates.d2d_gbps);
      operation.duration = static_cast<Nanoseconds>(ns + rates.card.copy_ns);
    }
    operation.engine = engine_;
  }

  void run(Nanoseconds start, Nanoseconds end) {
    resolve(to_, from_);
    if (box_.linear()) {
      head_.resize(std::min(kHeldBack, box_.width));
      read(from_, 0, head_);
    }
    sleep_until(latest_begin(box_.bytes(), start, end));
    const Nanoseconds began = now_ns();
    if (box_.linear()) {
      const std::uint64_t held = head_.size() + tail_size();
      copy_bytes(to_, head_.size(), from_, head_.size(), box_.width - held);
    } else {
      copy_rows(0, box_.height * box_.depth - 1);
    }
    note_speed(box_.bytes(), now_ns() - began);
  }

  void finish() {
    // The copy needed its memory until now: if it was unmapped or remapped since run(), that is a
    // fault.
    View to_now;
    View from_now;
    resolve(to_now, from_now);
    if (!(to_now == to_)) throw AccessFault{target_.address, true};
    if (!(from_now == from_)) throw AccessFault{source_.address, false};
    if (box_.linear()) {
      const std::uint64_t tail = box_.width - tail_size();
      copy_bytes(to_, tail, from_, tail, tail_size());
      write(to_, 0, head_);
    } else {
      const std::uint64_t rows = box_.height * box_.depth;
      copy_rows(rows - 1, rows);
    }
    if (engine_ == Engine::kHostToDevice) statistics().h2d_bytes += box_.bytes();
    if (engine_ == Engine::kDeviceToHost) statistics().d2h_bytes += box_.bytes();
  }

 private:
  void resolve(View& to, View& from) const {
    to = View::of(target_, target_.extent(box_), true, device_);
    from = View::of(source_, source_.extent(box_), false, device_);
  }
  [[nodiscard]] std::uint64_t tail_size() const {
    return std::min(kHeldBack, box_.width - std::min(kHeldBack, box_.width));
  }
  void copy_rows(std::uint64_t first, std::uint64_t last) const {
    for (std::uint64_t row = first; row < last; ++row) {
      const std::uint64_t z = row / box_.height;
      const std::uint64_t y = row % box_.height;
      copy_bytes(to_, z * target_.slice + y * target_.pitch, from_,
                 z * source_.slice + y * source_.pitch, box_.width);
    }
  }
  static void read(const View& view, std::uint64_t offset, std::vector<unsigned char>& bytes) {
    for (std::uint64_t done = 0; done < bytes.size();) {
      const View::Piece piece = view.at(offset + done);
      const std::uint64_t length = std::min(piece.size, bytes.size() - done);
      std::memcpy(bytes.data() + done, piece.bytes, length);
      done += length;
    }
  }
  static void write(const View& view, std::uint64_t offset,
                    const std::vector<unsigned char>& bytes) {
    for (std::uint64_t done = 0; done < bytes.size();) {
      const View::Piece piece = view.at(offset + done);
      const std::uint64_t length = std::min(piece.size, bytes.size() - done);
      std::memcpy(piece.bytes, bytes.data() + done, length);
      done += length;
    }
  }

  const End target_;
  End source_;
  const Box box_;
  Engine engine_;
  const int device_;
  std::vector<unsigned char> staging_;
  std::vector<unsigned char> head_;
  View to_;
  View from_;
};

/// Whether a synchronous call returns as soon as its pageable source is staged.
bool is_staged(const End& target, const End& source, const Box& box, Wait wait) {
  return configuration().pageable_staged && wait == Wait::kSync && target.side == Side::kDevice &&
         source.side == Side::kHost && !source.pinned && source.extent(box) <= kLargestStaged;
}

Operation operation_with(const CopyWork& work, const std::shared_ptr<CopyTask>& task) {
  Operation operation;
  operation.label = work.name;
  operation.engine = engine_of(work.target, work.source);
  operation.duration = duration_of(operation.engine, work.target, work.source, work.box.bytes());
  if (HostPages::instance().any()) {
    operation.plan = [task](Operation& planned) { task->plan(planned); };
  }
  operation.timed_work = [task](Nanoseconds start, Nanoseconds end) { task->run(start, end); };
  operation.finish = [task] { task->finish(); };
  return operation;
}

bool needs_wait(const End& target, const End& source, const Box& box, Wait wait) {
  const bool to_host = target.side == Side::kHost;
  const bool from_host = source.side == Side::kHost;
  if (!to_host && !from_host) return false;  // between device memory nothing ever waits
  if (wait == Wait::kSync || (to_host && from_host)) return true;
  if (to_host) return !target.pinned;
  return !source.pinned && source.extent(box) > kLargestStaged;
}

/// The ordinal of the device that the memory at `address` lies on; -1 if nothing is mapped there.
int device_at(std::uint64_t address) {
  AddressSpace& space = AddressSpace::instance();
  if (const auto allocation = space.allocations().find(address)) {
    return allocation->device().ordinal();
  }
  const auto mapping = space.mappings().find_mapping(address);
  return mapping ? mapping->device : -1;
}

/// Whether a copy from or to memory of `device` can be made with the memory at `address`, of
/// another device, by a call that does not say whose memory it is. What cuMemAlloc made can be
/// copied so; mapped memory and that of pools only where `device` was given access to it.
bool is_in_reach(std::uint64_t address, int device) {
  AddressSpace& space = AddressSpace::instance();
  if (const auto allocation = space.allocations().find(address)) {
    return allocation->pool == nullptr || allocation->pool->is_open_to(device);
  }
  unsigned long long flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  (void)space.mappings().get_access(address, device, &flags);
  return flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
}

/// Whether the call that named both ends can copy between their devices.
bool can_reach(const End& target, const End& source) {
  if (target.side != Side::kDevice || source.side != Side::kDevice || target.is_placed) return true;
  const int to = device_at(target.address);
  const int from = device_at(source.address);
  if (to < 0 || from < 0 || to == from) return true;
  return is_in_reach(target.address, from) && is_in_reach(source.address, to);
}

}  // namespace

double End::share_in_host_pages(const Box& box) const {
  if (side != Side::kDevice || claim.allocated) return 0;
  const std::uint64_t whole = extent(box);
  const std::uint64_t there = AddressSpace::instance().mappings().bytes_on_host(address, whole);
  return static_cast<double>(there) / static_cast<double>(whole);
}

Nanoseconds latest_begin(std::uint64_t bytes, Nanoseconds start, Nanoseconds end) {
  constexpr Nanoseconds kMargin = 30'000;
  // Twice the time it should take: the machine has other things to do.
  const double needed = 2.0 * static_cast<double>(bytes) / bytes_per_ns.load();
  return std::max(start, end - static_cast<Nanoseconds>(needed) - kMargin);
}

void note_speed(std::uint64_t bytes, Nanoseconds took) {
  if (bytes < (std::uint64_t{256} << 10) || took <= 0) return;
  const double speed = static_cast<double>(bytes) / static_cast<double>(took);
  const double blended = 0.75 * bytes_per_ns.load() + 0.25 * speed;
  bytes_per_ns.store(std::clamp(blended, 0.5, 10.0));
}

View View::of(const End& end, std::uint64_t extent, bool write, int device) {
  View view;
  if (end.side == Side::kHost) {
    view.segments_.push_back({reinterpret_cast<unsigned char*>(end.address), extent, nullptr, 0});
    return view;
  }
  Resolution found = AddressSpace::instance().resolve(end.claim, extent, write, device);
  if (!found.accessible) throw AccessFault{found.first_bad, write};
  view.segments_ = std::move(found.segments);
  return view;
}

View::Piece View::at(std::uint64_t offset) const {
  for (const Segment& segment : segments_) {
    if (offset < segment.size) return {segment.bytes + offset, segment.size - offset};
    offset -= segment.size;
  }
  return {nullptr, 0};  // callers stay inside the extent
}

CUresult classify(End& end, const Box& box, bool write) {
  AddressSpace& space = AddressSpace::instance();
  const std::uint64_t extent = end.extent(box);
  if (end.address == 0 || end.address + extent < end.address) return CUDA_ERROR_INVALID_VALUE;
  const bool in_device = space.touches_device(end.address, extent);
  if (in_device) {
    if (end.side == Side::kHost) return CUDA_ERROR_INVALID_VALUE;
    end.side = Side::kDevice;
    const bool there = space.resolve(end.address, extent, write, -1).accessible ||
                       GraphAllocation::covers(end.address, extent);
    end.claim = space.claim(end.address);
    return there ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  const auto pinned = space.pinned().find(end.address);
  end.pinned = pinned && extent <= pinned->base + pinned->size - end.address;
  // The device may be given the address of mapped host memory, but of no other.
  if (end.side == Side::kDevice && !end.pinned) return CUDA_ERROR_INVALID_VALUE;
  end.side = Side::kHost;
  return CUDA_SUCCESS;
}

Operation operation_of(const CopyWork& work, const Context& context) {
  CopyWork named = work;
  for (End* const end : {&named.target, &named.source}) {
    if (end->side == Side::kDevice) end->claim = AddressSpace::instance().claim(end->address);
  }
  return operation_with(named, std::make_shared<CopyTask>(named, context.device().ordinal()));
}

CUresult copy(const char* name, const StreamPtr& stream, End target, End source, const Box& box,
              Wait wait, std::vector<CompletionPtr> before) {
  if (box.bytes() == 0) return CUDA_SUCCESS;
  if (const CUresult result = classify(target, box, true); result != CUDA_SUCCESS) return result;
  if (const CUresult result = classify(source, box, false); result != CUDA_SUCCESS) return result;
  if (!can_reach(target, source)) return CUDA_ERROR_INVALID_VALUE;
  const CopyWork work{name, target, source, box};
  if (const auto answer = wait == Wait::kSync ? refuse_synchronous(stream) : capture(stream, [&] {
        return seal(work, *stream);
      })) {
    return *answer;
  }
  Context& context = context_of(*stream);
  const bool staged = is_staged(target, source, box, wait);
  if (staged) {  // the stream's earlier work is waited for, before the copy begins
    if (const CUresult result = synchronize(stream); result != CUDA_SUCCESS) return result;
  }
  const bool waits = !staged && needs_wait(target, source, box, wait);
  const auto task = std::make_shared<CopyTask>(work, context.device().ordinal());
  if (!waits && source.side == Side::kHost && !source.pinned) task->stage();
  await_room(stream);
  Operation operation = operation_with(work, task);
  operation.waits = std::move(before);
  const CompletionPtr completion = enqueue(stream, std::move(operation));
  if (!waits) return CUDA_SUCCESS;
  completion->wait();
  return context.sticky_error();
}

CUresult copy_on(const char* name, CUstream handle, NullStream null_stream, const End& target,
                 const End& source, const Box& box, Wait wait, std::vector<CompletionPtr> before) {
  SIMGPU_CONTEXT(context);
  StreamPtr stream;
  if (const CUresult result = resolve_stream(*context, handle, null_stream, &stream);
      result != CUDA_SUCCESS) {
    return result;
  }
  return copy(name, stream, target, source, box, wait, std::move(before));
}

}  // namespace simgpu

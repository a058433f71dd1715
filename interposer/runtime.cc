#include "interposer/runtime.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <utility>

#include "interposer/driver/codes.h"
#include "interposer/driver/loader.h"
#include "interposer/driver/table.h"
#include "interposer/host_limits.h"
#include "interposer/log.h"
#include "policy/budget.h"

namespace superpipe {
namespace {

/// cuFuncGetParamInfo, without which a launch's buffers cannot be known, came with CUDA 12.4.
constexpr int kOldestDriver = 12040;

/// What is kept beside the managed state: it comes and goes, the process stays. Never destroyed:
/// hooks may run in other libraries' destructors.
struct Process {
  std::mutex mutex;
  Configuration configuration;
  std::map<CUdevice, int> primary_references;
  std::map<CUcontext, int> attached;  ///< references beyond the first
  std::set<CUcontext> green;          ///< contexts that green contexts gave
  bool dropping = false;              ///< a managed state is on its way out
  std::vector<Runtime*> dropped;      ///< see Runtime
  std::optional<ExitFigures> finished;
  bool given_up = false;
};

Process& process() {
  static auto* const instance = new Process;
  return *instance;
}

/// Adds what one managed state did to what earlier ones did.
ExitFigures merged(const ExitFigures& earlier, const ExitFigures& later) {
  ExitFigures sum = later;
  ResidencyStats& to = sum.residency;
  const ResidencyStats& from = earlier.residency;
  to.launches += from.launches;
  to.accesses += from.accesses;
  to.peak_device_bytes = std::max(to.peak_device_bytes, from.peak_device_bytes);
  to.peak_managed_demand = std::max(to.peak_managed_demand, from.peak_managed_demand);
  to.h2d_bytes += from.h2d_bytes;
  to.d2h_bytes += from.d2h_bytes;
  to.demand_fetches += from.demand_fetches;
  to.prefetches += from.prefetches;
  to.clean_evictions += from.clean_evictions;
  to.write_backs += from.write_backs;
  to.stall_ms += from.stall_ms;
  to.pass_ms.insert(to.pass_ms.begin(), from.pass_ms.begin(), from.pass_ms.end());
  to.pinned_host_bytes = std::max(to.pinned_host_bytes, from.pinned_host_bytes);
  to.errors += from.errors;
  to.timeline.insert(to.timeline.begin(), from.timeline.begin(), from.timeline.end());
  to.learned.mispredictions += from.learned.mispredictions;
  // What the last state learned describes the process, unless it learned nothing.
  const std::size_t passes = to.learned.passes + from.learned.passes;
  if (!to.learned.layers_known) {
    const std::size_t mispredictions = to.learned.mispredictions;
    to.learned = from.learned;
    to.learned.mispredictions = mispredictions;
    to.managed_limit = from.managed_limit;
  }
  to.learned.passes = passes;
  sum.launches_without_buffers += earlier.launches_without_buffers;
  sum.peak_passthrough = std::max(sum.peak_passthrough, earlier.peak_passthrough);
  sum.peak_headroom = std::max(sum.peak_headroom, earlier.peak_headroom);
  if (!sum.link_bytes_per_second) sum.link_bytes_per_second = earlier.link_bytes_per_second;
  if (sum.overhead_ns_p50 <= 0) {
    sum.overhead_ns_p50 = earlier.overhead_ns_p50;
    sum.overhead_ns_p99 = earlier.overhead_ns_p99;
  }
  return sum;
}

/// Says why nothing will be managed, once, and stops trying.
void give_up(const std::string& why, std::atomic<bool>& refuses) {
  process().given_up = true;
  const bool strict = process().configuration.strict;
  refuses.store(strict);
  log_line(LogLevel::kError,
           why + (strict ? "; SUPERPIPE_STRICT=1, so allocations fail" : "; running unmanaged"));
}

/// Whether `context` is the primary context of `device`.
bool is_primary(CUcontext context, CUdevice device) {
  unsigned int flags = 0;
  int active = 0;
  if (driver().cuDevicePrimaryCtxGetState(device, &flags, &active) != CUDA_SUCCESS || active == 0) {
    return false;
  }
  // Retaining tells the primary context's handle; that it is active, somebody's reference sees to.
  CUcontext primary = nullptr;
  if (driver().cuDevicePrimaryCtxRetain(&primary, device) != CUDA_SUCCESS) return false;
  driver().cuDevicePrimaryCtxRelease_v2(device);
  return primary == context;
}

/// What a scan in the stream's order needs to find; freed by the host function.
struct StreamScan {
  Runtime* runtime;
  const void* data;
  std::size_t size;
};

}  // namespace

Runtime::Runtime(CUcontext context, CUdevice device, Bytes device_total, Bytes context_bytes)
    : context_(context),
      device_(device),
      device_total_(device_total),
      context_bytes_(context_bytes),
      min_buffer_(configuration().min_buffer),
      device_memory_(context, device) {}

void Runtime::configure(Configuration configuration) {
  process().configuration = std::move(configuration);
}

const Configuration& Runtime::configuration() noexcept { return process().configuration; }

Runtime* Runtime::for_allocation() noexcept {
  Runtime* runtime = if_active();
  if (runtime == nullptr) runtime = start();
  if (runtime == nullptr) return nullptr;
  CUcontext current = nullptr;
  if (driver().cuCtxGetCurrent(&current) != CUDA_SUCCESS || current != runtime->context_) {
    return nullptr;
  }
  return runtime;
}

Runtime* Runtime::for_current_device() noexcept {
  Runtime* const runtime = for_allocation();
  return runtime != nullptr ? runtime : if_on_current_device();
}

Runtime* Runtime::if_on_current_device() noexcept {
  Runtime* const runtime = if_active();
  CUdevice device = 0;
  if (runtime == nullptr || driver().cuCtxGetDevice(&device) != CUDA_SUCCESS) return nullptr;
  return device == runtime->device_ ? runtime : nullptr;
}

Runtime* Runtime::start() noexcept {
  try {
    const std::lock_guard lock(process().mutex);
    if (Runtime* const other = if_active()) return other;
    if (process().given_up) return nullptr;
    CUcontext context = nullptr;
    CUdevice device = 0;
    std::size_t free = 0;
    std::size_t total = 0;
    if (driver().cuCtxGetCurrent(&context) != CUDA_SUCCESS || context == nullptr ||
        driver().cuCtxGetDevice(&device) != CUDA_SUCCESS ||
        driver().cuMemGetInfo_v2(&free, &total) != CUDA_SUCCESS) {
      return nullptr;  // the driver will tell the program what is wrong
    }
    // While an earlier state still holds memory, nobody knows what a context takes.
    if (process().dropping || process().green.count(context) > 0) return nullptr;
    int version = 0;
    if (driver().cuDriverGetVersion(&version) != CUDA_SUCCESS || version < kOldestDriver) {
      give_up(
          "the driver does not tell kernels' parameters: CUDA 12.4 (driver 550) or newer is needed",
          refuses_);
      return nullptr;
    }
    int has_virtual_memory = 0;
    if (driver().cuDeviceGetAttribute(&has_virtual_memory,
                                      CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                                      device) != CUDA_SUCCESS ||
        has_virtual_memory == 0) {
      give_up("the device has no virtual memory management", refuses_);
      return nullptr;
    }
    for (const std::string& copy : foreign_driver_copies()) {
      log_line(LogLevel::kWarning, "the program opened the driver past superpipe (" + copy +
                                       "): what it does through that copy is not managed");
    }
    const Configuration& wanted = configuration();
    const Bytes context_bytes{total - std::min(free, total)};
    ResidencyOptions options;
    options.policy.kind = wanted.policy;
    options.policy.k = wanted.k;
    options.policy.k_prime = wanted.k_prime;
    Bytes budget;
    if (wanted.gpu_mem) {
      const Bytes asked = wanted.gpu_mem->resolve(Bytes{total});
      if (asked <= context_bytes) {
        give_up("SUPERPIPE_GPU_MEM is " + format_bytes(asked) + ", but the context alone takes " +
                    format_bytes(context_bytes) + "; allow more",
                refuses_);
        return nullptr;
      }
      budget = asked - context_bytes;
      options.policy.budget = budget;
    }
    options.host_limit = host_store_limit(read_host_memory(""), wanted.host_mem);
    options.wait_limit = wanted.wait_limit;
    options.zero_fill = wanted.zero_fill;
    options.overflow_allowed = wanted.overflow_allowed;
    options.record_timeline = !wanted.timeline_file.empty();
    options.warn = [](const std::string& line) { log_line(LogLevel::kWarning, line); };

    std::unique_ptr<Runtime> runtime(new Runtime(context, device, Bytes{total}, context_bytes));
    runtime->budget_ = budget;
    options.kernel_name = [&layouts = runtime->layouts_](KernelId kernel) {
      return layouts.readable_name(kernel);
    };
    auto residency = ResidencyManager::create(runtime->device_memory_, options);
    if (!residency.ok()) {
      give_up("the managed state could not be made (the log says why)", refuses_);
      return nullptr;
    }
    runtime->residency_ = std::move(*residency);
    runtime->unmanaged_.emplace(*runtime->residency_, runtime->device_memory_, context_bytes);
    Runtime* const started = runtime.release();
    active_.store(started, std::memory_order_release);
    log_line(LogLevel::kInfo, "managing device " + std::to_string(device) + ", policy " +
                                  std::string(name_of(wanted.policy)) + ", context " +
                                  format_bytes(context_bytes) + " of " +
                                  format_bytes(Bytes{total}));
    return started;
  } catch (...) {
    return nullptr;  // out of host memory: the allocation that asked will find out too
  }
}

void Runtime::drop() noexcept {
  Runtime* runtime = nullptr;
  {
    const std::lock_guard lock(process().mutex);
    runtime = active_.exchange(nullptr, std::memory_order_acq_rel);
    if (runtime == nullptr) return;
    process().dropping = true;
  }
  // The context's end waits for its work, but comes after this: what is queued still uses buffers.
  CUcontext context = nullptr;
  const bool pushed = driver().cuCtxPushCurrent_v2(runtime->context_) == CUDA_SUCCESS;
  if (pushed) {
    (void)driver().cuCtxSynchronize();
    (void)driver().cuCtxPopCurrent_v2(&context);
  }
  try {
    const ExitFigures figures = runtime->collect_figures();
    const std::lock_guard lock(process().mutex);
    auto& finished = process().finished;
    finished = finished ? merged(*finished, figures) : figures;
  } catch (...) {
    // The statistics of this context are lost; its memory must go all the same.
  }
  pools().forget_allocations();
  runtime->residency_->shut_down();
  const std::lock_guard lock(process().mutex);
  process().dropping = false;
  try {
    process().dropped.push_back(runtime);
  } catch (...) {
    // It then only looks like a leak.
  }
}

void Runtime::on_context_created() noexcept { contexts_.fetch_add(1); }

void Runtime::on_context_destroying(CUcontext context) noexcept {
  {
    const std::lock_guard lock(process().mutex);
    process().attached.erase(context);  // ends whatever the references
  }
  const Runtime* const runtime = if_active();
  // The driver refuses to destroy a primary context in this way: its buffers live on.
  if (runtime != nullptr && runtime->context_ == context &&
      !is_primary(context, runtime->device_)) {
    drop();
  }
}

void Runtime::on_green_context(CUcontext context) noexcept {
  on_context_created();
  try {
    const std::lock_guard lock(process().mutex);
    process().green.insert(context);
  } catch (...) {
    // Managed like any other, then.
  }
}

void Runtime::on_context_attached(CUcontext context) noexcept {
  try {
    const std::lock_guard lock(process().mutex);
    ++process().attached[context];
  } catch (...) {
    // Dropped too early, then: safe.
  }
}

bool Runtime::is_last_reference(CUcontext context) noexcept {
  const std::lock_guard lock(process().mutex);
  return process().attached.count(context) == 0;
}

void Runtime::on_context_detached(CUcontext context) noexcept {
  const std::lock_guard lock(process().mutex);
  const auto found = process().attached.find(context);
  if (found != process().attached.end() && --found->second == 0) process().attached.erase(found);
}

void Runtime::on_context_destroyed() noexcept { contexts_.fetch_sub(1); }

MemoryPools& Runtime::pools() noexcept {
  static auto* const pools = new MemoryPools;
  return *pools;
}

void Runtime::on_primary_retained(CUdevice device) noexcept {
  try {
    const std::lock_guard lock(process().mutex);
    if (process().primary_references[device]++ == 0) contexts_.fetch_add(1);
  } catch (...) {
    contexts_.fetch_add(1);  // too many is safe: streams are then asked for their context
  }
}

void Runtime::on_primary_releasing(CUdevice device) noexcept {
  {
    const std::lock_guard lock(process().mutex);
    const auto found = process().primary_references.find(device);
    if (found == process().primary_references.end() || found->second == 0) return;
    if (--found->second > 0) return;
  }
  contexts_.fetch_sub(1);
  on_primary_resetting(device);
}

void Runtime::on_primary_resetting(CUdevice device) noexcept {
  const Runtime* const runtime = if_active();
  if (runtime == nullptr || runtime->device_ != device) return;
  if (is_primary(runtime->context_, device)) drop();
}

void Runtime::on_primary_reset(CUdevice device) noexcept {
  const std::lock_guard lock(process().mutex);
  const auto found = process().primary_references.find(device);
  if (found == process().primary_references.end() || found->second == 0) return;
  // A reset ends all references to the context.
  found->second = 0;
  contexts_.fetch_sub(1);
}

void Runtime::abandon() noexcept {
  Runtime* const runtime = active_.exchange(nullptr, std::memory_order_acq_rel);
  if (runtime != nullptr) runtime->residency_->abandon();
}

std::optional<ExitFigures> Runtime::figures() {
  const Runtime* const runtime = if_active();
  const std::lock_guard lock(process().mutex);
  const auto& finished = process().finished;
  if (runtime == nullptr) return finished;
  const ExitFigures current = runtime->collect_figures();
  return finished ? merged(*finished, current) : current;
}

ExitFigures Runtime::collect_figures() const {
  const Configuration& wanted = configuration();
  ExitFigures figures;
  figures.policy = wanted.policy;
  figures.k = wanted.k;
  figures.k_prime = wanted.k_prime;
  figures.residency = residency_->stats();
  {
    const std::lock_guard lock(noted_mutex_);
    if (noted_.pass_bytes > figures.residency.learned.pass_bytes) {
      figures.residency.learned.k = noted_.k;
      figures.residency.learned.k_prime = noted_.k_prime;
      figures.residency.learned.layers_known = noted_.layers_known;
      figures.residency.learned.layer_bytes = noted_.layer_bytes;
      figures.residency.learned.pass_bytes = noted_.pass_bytes;
      figures.residency.learned.largest_piece = noted_.largest_piece;
      figures.residency.managed_limit = noted_limit_;
    }
  }
  figures.budget = budget_;
  if (budget_ == Bytes{} && wanted.policy != PolicyKind::kResident) {
    figures.budget = figures.residency.managed_limit;
  }
  figures.context_bytes = context_bytes_;
  figures.device_total = device_total_;
  figures.peak_passthrough = unmanaged_->memory().peak();
  figures.peak_headroom = unmanaged_->memory().peak_headroom();
  figures.launches_without_buffers = launches_without_buffers_.load();
  figures.link_bytes_per_second = device_memory_.measured_link();
  figures.overhead_ns_p50 = overhead_.quantile(0.5);
  figures.overhead_ns_p99 = overhead_.quantile(0.99);
  figures.async_allocators = wanted.async_allocators;
  return figures;
}

void Runtime::note_free() noexcept {
  constexpr std::int64_t kIntervalNs = 100'000'000;
  const std::int64_t now = std::chrono::steady_clock::now().time_since_epoch().count();
  std::int64_t next = next_note_ns_.load(std::memory_order_relaxed);
  if (now < next || !next_note_ns_.compare_exchange_strong(next, now + kIntervalNs)) return;
  try {
    ResidencyStats stats = residency_->stats();
    if (!stats.learned.layers_known) return;
    const std::lock_guard lock(noted_mutex_);
    noted_ = std::move(stats.learned);
    noted_limit_ = stats.managed_limit;
  } catch (...) {
    // The report then says less.
  }
}

bool Runtime::is_capturing(StreamHandle stream) noexcept {
  if (!CaptureCount::any()) return false;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  // An error means that the legacy stream would break a capture: the driver shall say so itself.
  return driver().cuStreamIsCapturing(driver_stream(stream), &status) != CUDA_SUCCESS ||
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

bool Runtime::can_order_slowly(StreamHandle stream) const noexcept {
  if (is_capturing(stream)) return false;
  if (contexts_.load(std::memory_order_relaxed) <= 1) return true;
  CUcontext context = nullptr;
  const bool is_special = stream == kLegacyStream || stream == kPerThreadStream;
  const CUresult result = is_special ? driver().cuCtxGetCurrent(&context)
                                     : driver().cuStreamGetCtx(driver_stream(stream), &context);
  return result == CUDA_SUCCESS && context == context_;
}

Status Runtime::pin(std::span<const std::uint64_t> words, const char* reason) noexcept {
  if (words.empty()) return Status::kOk;
  try {
    return residency_->pin_forever(words, reason);
  } catch (...) {
    return Status::kOutOfHostMemory;
  }
}

Status Runtime::pin_named_by(const void* data, std::size_t size) noexcept {
  if (data == nullptr || size < sizeof(std::uint64_t) || size > kLargestScan) return Status::kOk;
  WordList words;
  collect_bytes(
      data, size, [this](std::uint64_t word) { return in_arena(word); }, words);
  if (words.failed()) return Status::kOutOfHostMemory;
  return pin(words.words(), "device memory holds a pointer to them");
}

void Runtime::scan_in_stream(const void* data, std::size_t size, StreamHandle stream) noexcept {
  if (data == nullptr || size < sizeof(std::uint64_t) || size > kLargestScan) return;
  auto* const scan = new (std::nothrow) StreamScan{this, data, size};
  if (scan == nullptr) return;
  const auto run = [](void* user_data) {
    const std::unique_ptr<StreamScan> owned(static_cast<StreamScan*>(user_data));
    // The managed state may have been dropped meanwhile; then there is nothing to pin.
    Runtime* const runtime = if_active();
    if (runtime != owned->runtime) return;
    WordList words;
    collect_bytes(
        owned->data, owned->size, [runtime](std::uint64_t word) { return runtime->in_arena(word); },
        words);
    if (words.empty()) return;
    try {
      const std::lock_guard lock(runtime->pending_mutex_);
      runtime->pending_.insert(runtime->pending_.end(), words.words().begin(), words.words().end());
      runtime->has_pending_.store(true, std::memory_order_release);
    } catch (...) {
      log_line(LogLevel::kError, "out of memory: a pointer in device memory goes unseen");
    }
  };
  if (driver().cuLaunchHostFunc(driver_stream(stream), run, scan) != CUDA_SUCCESS) delete scan;
}

Status Runtime::pin_pending() noexcept {
  std::vector<std::uint64_t> words;
  {
    const std::lock_guard lock(pending_mutex_);
    words.swap(pending_);
    has_pending_.store(false, std::memory_order_relaxed);
  }
  const Status status = pin(words, "device memory holds a pointer to them");
  if (status != Status::kOk) {
    // They still have to be: the next launch tries again.
    try {
      const std::lock_guard lock(pending_mutex_);
      pending_.insert(pending_.end(), words.begin(), words.end());
      has_pending_.store(true, std::memory_order_release);
    } catch (...) {
      log_line(LogLevel::kError, "out of memory: a pointer in device memory goes unseen");
    }
  }
  return status;
}

}  // namespace superpipe

#include "interposer/contexts/managed_context.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <optional>
#include <utility>
#include <variant>

#include "interposer/allocators/framework_environment.h"
#include "interposer/cupti/cupti_api.h"
#include "interposer/cupti/cupti_collector.h"
#include "interposer/driver/in_context.h"
#include "interposer/driver/loader.h"
#include "interposer/driver/streams.h"
#include "interposer/driver/table.h"
#include "interposer/log.h"
#include "interposer/reports/exit_report.h"
#include "interposer/reports/fault_report.h"
#include "interposer/reports/fault_watch.h"
#include "interposer/reports/live_view.h"
#include "policy/budget.h"
#include "policy/piece_size.h"
#include "policy/requirements.h"
#include "profiler/kernel_names.h"
#include "profiler/shared_folder.h"
#include "residency/host/host_memory.h"
#include "settings/settings.h"

namespace superpipe {
namespace {

/// What the driver or the device lacks, for the user; empty if they offer all that is needed.
std::string missing_support(CUdevice device) {
  int version = 0;
  if (driver().cuDriverGetVersion(&version) != CUDA_SUCCESS || version < kOldestDriver) {
    return "the driver does not tell kernels' parameters: CUDA " + cuda_version(kOldestDriver) +
           " (driver " + kOldestDriverPackage + ") or newer is needed";
  }
  int has_virtual_memory = 0;
  if (driver().cuDeviceGetAttribute(&has_virtual_memory,
                                    CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                                    device) != CUDA_SUCCESS ||
      has_virtual_memory == 0) {
    return "the device has no virtual memory management";
  }
  return "";
}

/// What a context can have taken of the `used` bytes that the device holds as it is made. The
/// driver does not say whose they are. A context takes some hundreds of megabytes, code that was
/// loaded with it included, unless all code of all libraries is.
Bytes bytes_of_context(Bytes used, Bytes total) {
  constexpr Bytes kMostOfAContext = 1_GiB;
  constexpr std::uint64_t kMostOfEagerCode = 16;  // one part of the device in so many
  if (used <= kMostOfAContext) return used;
  CUmoduleLoadingMode mode = CU_MODULE_EAGER_LOADING;
  const bool is_lazy =
      driver().cuModuleGetLoadingMode(&mode) == CUDA_SUCCESS && mode == CU_MODULE_LAZY_LOADING;
  const Bytes with_code = is_lazy ? Bytes{} : Bytes{total.count() / kMostOfEagerCode};
  return std::min(used, std::max(kMostOfAContext, with_code));
}

// Or why there is none.
std::variant<std::unique_ptr<CuptiCollector>, std::string> open_and_start_cupti(
    TraceRecorder& trace) {
  const auto opened = open_cupti();
  if (const auto* const problem = std::get_if<std::string>(&opened)) return *problem;
  return CuptiCollector::start(std::get<CuptiApi>(opened), trace);
}

}  // namespace

ManagedContext::ManagedContext(const DeviceFacts& facts, const Configuration& configuration)
    : configuration_(configuration),
      context_(facts.context),
      device_(facts.device),
      device_total_(facts.total),
      context_bytes_(facts.context_bytes),
      budget_(facts.budget),
      buffers_before_(facts.buffers_before),
      headroom_(configuration.headroom_on(facts.total, facts.budget)),
      device_memory_(facts.context, facts.device),
      layouts_(configuration.known_kernel_words ? KernelLayoutCache::StructWords::kKnownOfVersion
                                                : KernelLayoutCache::StructWords::kAll) {}

ManagedContext::Created ManagedContext::create(CUcontext context, CUdevice device,
                                               const Configuration& configuration,
                                               std::uint64_t buffers_before,
                                               std::optional<Bytes> own) {
  std::size_t free = 0;
  std::size_t total = 0;
  if (driver().cuMemGetInfo_v2(&free, &total) != CUDA_SUCCESS) return {};
  if (std::string missing = missing_support(device); !missing.empty()) {
    return {nullptr, std::move(missing)};
  }
  const Bytes used{total - std::min(free, total)};
  const Bytes context_bytes = own ? std::min(*own, used) : bytes_of_context(used, Bytes{total});
  if (!own && context_bytes < used) {
    log_line(LogLevel::kInfo,
             "the device held " + format_bytes(used) + " when the context was there; " +
                 format_bytes(context_bytes) +
                 " of it are taken for the context, and the rest for other processes': if there "
                 "are none, the process takes more than its budget by as much");
  }
  Bytes budget;
  if (configuration.gpu_mem) {
    const Bytes asked = configuration.gpu_mem->resolve(Bytes{total});
    if (asked <= context_bytes) {
      return {nullptr, std::string(variable_of(SettingId::kGpuMem)) + " is " + format_bytes(asked) +
                           ", but the context alone takes " + format_bytes(context_bytes) +
                           "; allow more"};
    }
    budget = asked - context_bytes;
  } else if (configuration.budget_is_free_memory()) {
    budget = Bytes{free};
    const Bytes headroom = configuration.headroom_on(Bytes{total}, budget);
    if (budget <= headroom) {
      return {nullptr, "the device has " + format_bytes(budget) +
                           " free, and the headroom alone is " + format_bytes(headroom) +
                           "; stop what else runs there, or set a smaller " +
                           variable_of(SettingId::kHeadroom)};
    }
  }
  const DeviceFacts facts{context, device, Bytes{total}, context_bytes, budget, buffers_before};
  std::unique_ptr<ManagedContext> managed(new ManagedContext(facts, configuration));
  managed->start_trace();
  const std::string no_ledger = managed->join_host_ledger();
  auto residency = ResidencyManager::create(managed->device_memory_, managed->residency_options());
  if (!residency.ok()) {
    return {nullptr, "the managed context could not be set up (the log says why)"};
  }
  managed->residency_ = std::move(*residency);
  managed->tensor_maps_.emplace(*managed->residency_);
  managed->pointer_arrays_.emplace(*managed->residency_);
  managed->pins_.emplace(*managed->residency_, *managed->tensor_maps_);
  managed->noted_words_.emplace(*managed->residency_);
  managed->warn_of_being_alone(no_ledger, managed->show());
  log_line(LogLevel::kInfo, "managing device " + std::to_string(device) + ", policy " +
                                std::string(name_of(configuration.policy)) + ", context " +
                                format_bytes(context_bytes) + " of " + format_bytes(Bytes{total}));
  return {std::move(managed), ""};
}

// Why no other budget can be given, whatever it is; kChanged: it can.
BudgetAnswer ManagedContext::standing_refusal() const noexcept {
  if (configuration_.policy == PolicyKind::kResident) return BudgetAnswer::kNothingMoves;
  return configuration_.k ? BudgetAnswer::kCountsLayers : BudgetAnswer::kChanged;
}

// Makes this process known to `superpipe budget` and `superpipe top`. @return why that cannot be,
// as it runs all the same; empty: it is known.
std::string ManagedContext::show() {
  const std::string& folder = configuration_.shared_folder;
  std::string problem = problem_with_shared_folder(folder, FolderUse::kEnter);
  if (!problem.empty()) return problem + advice_on_shared_folder();
  try {
    const LiveDescription description{configuration_.policy, device_total_, standing_refusal()};
    if (auto segment = LiveSegment::create(description, problem, folder)) {
      std::unique_ptr<RunProgress> progress;
      if (configuration_.progress) {
        if (auto line = TerminalLine::open(STDERR_FILENO, TerminalLine::Clock::now())) {
          progress = std::make_unique<RunProgress>(std::move(line));
        }
      }
      requests_ = std::make_unique<BudgetRequests>(
          std::move(segment),
          BudgetRequests::Actions{[this](Bytes budget) { return set_budget(budget); },
                                  [this] { return live_figures(); }},
          std::move(progress));
    }
  } catch (const std::exception& error) {
    problem = error.what();
  }
  return problem;
}

// Where nothing moves, nothing is reserved either. Without a ledger the process has its own cap.
// @return why there is none, though there should be one; empty: there is, or need not be.
std::string ManagedContext::join_host_ledger() {
  if (!moves() || !configuration_.shares_host_memory) return "";
  const std::string& folder = configuration_.shared_folder;
  std::string problem = problem_with_shared_folder(folder, FolderUse::kEnter);
  if (!problem.empty()) return problem + advice_on_shared_folder();
  try {
    host_ledger_ = HostLedger::join(host_caps(host_memory_.at_first()), folder, problem);
  } catch (const std::exception& error) {
    problem = error.what();
  }
  return problem;
}

// One line for what others will not see of this process, and why: join_host_ledger() and show().
// A user who preloads the library and has it move nothing misses nothing, and is told only by the
// log.
void ManagedContext::warn_of_being_alone(std::string_view no_ledger,
                                         std::string_view no_segment) const {
  if (no_ledger.empty() && no_segment.empty()) return;
  static std::atomic<bool> has_warned{false};  // a process may have many contexts
  if (has_warned.exchange(true)) return;
  const bool is_missed = moves() || configuration_.shared_folder_is_given;
  log_line(is_missed ? LogLevel::kWarning : LogLevel::kInfo,
           words_of_being_alone(no_ledger, no_segment));
}

LiveFigures ManagedContext::live_figures() const {
  const ResidencyManager::LiveState state = residency_->live_state();
  return live_figures_of(
      state, configuration_,
      {context_bytes_, launches_without_buffers_.load(), device_memory_.measured_link()});
}

BudgetAnswer ManagedContext::set_budget(Bytes budget) noexcept {
  if (is_closed_.load()) return BudgetAnswer::kEnded;
  const BudgetAnswer answer = residency_->set_budget(saturating_subtract(budget, context_bytes_));
  if (answer == BudgetAnswer::kChanged) {
    log_line(LogLevel::kInfo, "the budget is " + format_bytes(budget) + " now");
  }
  return answer;
}

ResidencyOptions ManagedContext::residency_options() {
  ResidencyOptions options;
  options.policy.kind = configuration_.policy;
  options.policy.k = configuration_.k;
  options.policy.k_prime = configuration_.k_prime;
  options.policy.recorded = configuration_.recorded;
  if (configuration_.gpu_mem || configuration_.budget_is_free_memory()) {
    options.policy.budget = budget_;
    options.policy.budget_is_promise = configuration_.gpu_mem.has_value();
  }
  if (moves_pieces(options.policy.kind)) {
    options.piece_size = piece_size_for(options.policy.budget, device_memory_.granularity());
  }
  // A user who wants a timeline wants the launches on it, too.
  options.policy_waits = configuration_.budget_is_free_memory() &&
                         configuration_.timeline_file.empty() && configuration_.recorded == nullptr;
  options.headroom = headroom_;
  options.host_limit = host_store_limit(host_memory_.at_first(), configuration_.host_mem);
  options.host_allowed = configuration_.host_mem;
  options.host_memory = &host_memory_;
  options.host_ledger = host_ledger_.get();
  options.wait_limit = configuration_.wait_limit;
  options.zero_fill = configuration_.zero_fill;
  options.pins = configuration_.pins;
  options.buffers_before = buffers_before_;
  options.overflow_allowed = configuration_.overflow_allowed;
  options.compares_digests = configuration_.compares_digests;
  options.maps_early = configuration_.maps_early;
  options.record_timeline = !configuration_.timeline_file.empty();
  options.trace = trace_;
  options.warn = [](const std::string& line) { log_line(LogLevel::kWarning, line); };
  if (configuration_.strict) {
    options.refuse_other_program = [] { ::_exit(kExitBadConfiguration); };
  }
  options.kernel_name = [this](KernelId kernel) {
    return short_kernel_name(name_of_launch(kernel));
  };
  options.is_graph = [this](KernelId kernel) { return graphs_.name_of(kernel).has_value(); };
  return options;
}

// A graph is launched as if it were a kernel.
std::string ManagedContext::name_of_launch(KernelId kernel) const {
  return graphs_.name_of(kernel).value_or(layouts_.readable_name(kernel));
}

CUresult ManagedContext::failure(Status status, CallKind kind) noexcept {
  const bool is_without_room =
      status == Status::kWorkingSetTooLarge || status == Status::kOutOfDeviceMemory;
  const bool is_refused =
      is_without_room || status == Status::kTimedOut || status == Status::kOutOfHostMemory;
  if (kind == CallKind::kSubmission && is_refused) note_refused_operation(is_without_room);
  const CUresult sticky = status == Status::kDeviceError ? sticky_error() : CUDA_SUCCESS;
  return sticky != CUDA_SUCCESS ? sticky : to_curesult(status, kind);
}

// A framework may take another algorithm when a launch fails, and say nothing: with other bits.
void ManagedContext::note_refused_operation(bool is_without_room) noexcept {
  refused_operations_.fetch_add(1, std::memory_order_relaxed);
  if (trace_ != nullptr && is_without_room) {
    trace_->add(std::chrono::steady_clock::now(),
                TraceMark{TraceMark::kPoint, trace_->intern_text(kTraceRefusal), 0});
  }
  if (!configuration_.strict) return;
  log_line(LogLevel::kError,
           "--strict ends the program here, for one of its launches or copies was refused: it "
           "might go on in another way, with other results");
  end_process(kExitStrict);
}

bool ManagedContext::can_order_slowly(StreamHandle stream) const noexcept {
  if (is_capturing(stream)) return false;
  if (!ContextCount::has_several()) return true;
  CUcontext context = nullptr;
  if (stream == kLegacyStream || stream == kPerThreadStream) {
    // Where a green context is current these are streams of its own, which the same handles name.
    return driver().cuCtxGetCurrent(&context) == CUDA_SUCCESS && context == context_;
  }
  return driver().cuStreamGetCtx(driver_stream(stream), &context) == CUDA_SUCCESS &&
         (context == context_ || is_green_stream(stream));
}

// Whether `stream` is of a green context of this one: then events of this one order it.
bool ManagedContext::is_green_stream(StreamHandle stream) const noexcept {
  const OptionalCalls optional;  // since CUDA 12.5
  CUcontext context = nullptr;
  CUgreenCtx green = nullptr;
  return driver().cuStreamGetCtx_v2(driver_stream(stream), &context, &green) == CUDA_SUCCESS &&
         green != nullptr && context == context_;
}

Status ManagedContext::open_to(DeviceMask devices) noexcept {
  const std::lock_guard lock(peers_mutex_);
  const DeviceMask before = device_memory_.peers();
  const DeviceMask all = before | (devices & ~mask_of(device_));
  if (all == before || is_closed_.load()) return Status::kOk;
  device_memory_.set_peers(all);
  const Status status = residency_->renew_access();
  if (status != Status::kOk) device_memory_.set_peers(before);
  return status;
}

void ManagedContext::synchronize() noexcept {
  if (driver().cuCtxPushCurrent_v2(context_) != CUDA_SUCCESS) return;
  (void)driver().cuCtxSynchronize();
  CUcontext popped = nullptr;
  (void)driver().cuCtxPopCurrent_v2(&popped);
}

// The facts that a reader needs to replay the trace are in its header.
void ManagedContext::start_trace() noexcept try {
  if (configuration_.trace_file.empty()) return;
  TraceRecording::Properties properties = process_properties();
  const auto add = [&properties](const char* key, std::uint64_t value) {
    properties.emplace_back(key, std::to_string(value));
  };
  add("device.index", static_cast<std::uint64_t>(device_));
  char name[256] = {};
  if (driver().cuDeviceGetName(name, sizeof name - 1, device_) == CUDA_SUCCESS) {
    properties.emplace_back("device.name", name);
  }
  add("device.total_bytes", device_total_.count());
  add("device.context_bytes", context_bytes_.count());
  // At best. Source: CUDA C++ Best Practices Guide, "Theoretical Bandwidth Calculation": two
  // transfers of the bus's width in each clock of the memory.
  int memory_khz = 0;
  int bus_bits = 0;
  if (driver().cuDeviceGetAttribute(&memory_khz, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, device_) ==
          CUDA_SUCCESS &&
      driver().cuDeviceGetAttribute(&bus_bits, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH,
                                    device_) == CUDA_SUCCESS &&
      memory_khz > 0 && bus_bits > 0) {
    add("device.memory_bytes_per_second", static_cast<std::uint64_t>(memory_khz) * 1000 * 2 *
                                              (static_cast<std::uint64_t>(bus_bits) / 8));
  }
  int major = 0;
  int minor = 0;
  if (driver().cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                                    device_) == CUDA_SUCCESS &&
      driver().cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                                    device_) == CUDA_SUCCESS) {
    properties.emplace_back("device.compute_capability",
                            std::to_string(major) + "." + std::to_string(minor));
  }
  int version = 0;
  if (driver().cuDriverGetVersion(&version) == CUDA_SUCCESS) {
    add("driver.version", static_cast<std::uint64_t>(version));
  }
  const ResidencyOptions options = residency_options();
  properties.emplace_back("policy.name", std::string(name_of(options.policy.kind)));
  if (options.policy.k) add("policy.k", static_cast<std::uint64_t>(*options.policy.k));
  if (options.policy.k_prime && moves_windows(options.policy.kind)) {
    add("policy.k_prime", static_cast<std::uint64_t>(*options.policy.k_prime));
  }
  add("budget.bytes", options.policy.budget.value_or(Bytes{}).count());
  add("budget.headroom_bytes", options.headroom.count());
  add("budget.min_buffer_bytes", configuration_.min_buffer.count());
  add("buffer.granule_bytes", device_memory_.granularity().count());
  add("buffer.piece_bytes", options.piece_size.count());
  add("host.limit_bytes", options.host_limit.count());
  recording_ = TraceRecording::start(configuration_.trace_file, std::move(properties),
                                     [this](KernelId kernel) { return name_of_launch(kernel); });
  if (recording_ == nullptr) return;
  trace_ = &recording_->recorder();
} catch (const std::exception& error) {
  log_line(LogLevel::kError, std::string(variable_of(SettingId::kTrace)) + ": " + error.what());
}

// Another thread may have closed the context meanwhile: then nothing else stops what has started.
template <typename Times>
void ManagedContext::use_unless_closed(Times* times, std::atomic<Times*>& place) noexcept {
  {
    const std::lock_guard lock(times_mutex_);
    if (!is_closed_.load()) {
      place.store(times, std::memory_order_release);
      return;
    }
  }
  times->stop();
}

void ManagedContext::start_kernel_times() noexcept try {
  if (trace_ == nullptr || is_closed_.load()) return;
  if (configuration_.kernel_times == KernelTimes::kOff) return;
  if (configuration_.kernel_times == KernelTimes::kCupti) {
    const InRelaxedContext in_context(context_);
    auto started = open_and_start_cupti(*trace_);
    if (auto* const collector = std::get_if<std::unique_ptr<CuptiCollector>>(&started)) {
      use_unless_closed(collector->release(), cupti_collector_);
      return;
    }
    log_line(LogLevel::kWarning, std::string(variable_of(SettingId::kKernelTimes)) +
                                     "=cupti: " + std::get<std::string>(started) +
                                     "; some kernels are timed by events instead");
  }
  if (auto timer = KernelTimer::start(context_, *trace_)) {
    use_unless_closed(timer.release(), kernel_timer_);
  }
} catch (const std::exception&) {
  // Out of memory: the trace has no times of kernels.
}

void ManagedContext::end_progress() noexcept {
  if (requests_ != nullptr) requests_->end_progress();
}

void ManagedContext::finish_trace() noexcept {
  if (recording_ == nullptr) return;
  const std::string line = recording_->finish(configuration_.wait_limit);
  if (configuration_.summary && !line.empty()) {
    std::fprintf(stderr, "superpipe: %s\n", line.c_str());
  }
}

void ManagedContext::close() noexcept {
  {
    const std::lock_guard lock(times_mutex_);
    is_closed_.store(true);
  }
  if (requests_ != nullptr) requests_->stop();  // and stays: see requests_
  if (KernelTimer* const timer = kernel_timer()) timer->stop();
  if (CuptiCollector* const collector = cupti_collector()) collector->stop();
  pins_->close();
  residency_->shut_down();
  if (host_ledger_ != nullptr) host_ledger_->leave();
  finish_trace();
}

void ManagedContext::abandon() noexcept {
  is_closed_.store(true);
  if (requests_ != nullptr && !requests_->abandon()) {
    (void)requests_.release();  // NOLINT(bugprone-unused-return-value): its thread may use it
  }
  if (KernelTimer* const timer = kernel_timer()) (void)timer->abandon();
  if (CuptiCollector* const collector = cupti_collector()) collector->abandon();
  residency_->abandon();
  if (host_ledger_ != nullptr) host_ledger_->leave();
  if (recording_ != nullptr) recording_->abandon();
}

void ManagedContext::note_free() noexcept {
  constexpr std::int64_t kIntervalNs = 100'000'000;
  const std::int64_t now = std::chrono::steady_clock::now().time_since_epoch().count();
  std::int64_t next = next_note_ns_.load(std::memory_order_relaxed);
  if (now < next || !next_note_ns_.compare_exchange_strong(next, now + kIntervalNs)) return;
  try {
    auto learned = residency_->learned_layers();
    if (!learned || !learned->learned.layers_known) return;
    const std::lock_guard lock(noted_mutex_);
    noted_ = std::move(*learned);
  } catch (...) {
    // The report then says less.
  }
}

void ManagedContext::note_own_pages(Bytes size) noexcept {
  if (!moves()) return;
  const std::uint64_t before = own_pages_.fetch_add(size.count(), std::memory_order_relaxed);
  const std::uint64_t most = headroom_.count();
  if (before > most || before + size.count() <= most) return;
  try {
    std::string text =
        "the program asks for virtual memory of its own (cuMemCreate), for more than " +
        format_bytes(headroom_) + " so far: that counts against the budget and cannot be moved";
    if (is_pytorch_loaded()) {
      text += ". PyTorch does so with expandable_segments:True, where the program sets it itself";
    }
    log_line(LogLevel::kWarning, text);
  } catch (const std::bad_alloc&) {
    // It goes unsaid.
  }
}

namespace {

/// What the driver has logged; empty if it has no log.
std::string driver_log() {
  const OptionalCalls optional;  // since CUDA 12.9
  std::string log(std::size_t{32} << 10, '\0');
  std::size_t size = log.size();
  if (driver().cuLogsDumpToMemory(nullptr, log.data(), &size, 0) != CUDA_SUCCESS) size = 0;
  log.resize(std::min(size, log.size()));
  return log;
}

std::string error_name(CUresult error) {
  const char* name = nullptr;
  if (driver().cuGetErrorName(error, &name) != CUDA_SUCCESS || name == nullptr) {
    return std::to_string(static_cast<int>(error));
  }
  return name;
}

}  // namespace

void ManagedContext::report_access_fault() noexcept try {
  if (!moves() || has_reported_fault_.load()) return;
  const CUresult error = sticky_error();
  if (!may_be_access_fault(error) || has_reported_fault_.exchange(true)) return;
  Fault fault;
  fault.error = error_name(error);
  fault.address = address_in(driver_log(), *residency_);
  for (const KernelId kernel : recent_launches_.kernels()) {
    fault.kernels.push_back(short_kernel_name(name_of_launch(kernel)));
  }
  fault.pins = configuration_.pins_text;
  fault.absent = residency_->absent_buffers();
  if (fault.address) fault.near = residency_->near(*fault.address);
  for (const std::string& line : fault_report(fault)) log_line(LogLevel::kError, line);
} catch (const std::exception&) {
  log_line(LogLevel::kError, "out of memory while reporting a fault of the program");
}

RunFigures ManagedContext::figures() const {
  RunFigures figures;
  figures.policy = configuration_.policy;
  figures.k = configuration_.k;
  figures.k_prime = configuration_.k_prime;
  figures.residency = residency_->stats();
  {
    const std::lock_guard lock(noted_mutex_);
    restore_larger_passes(noted_, figures.residency);
  }
  if (auto pass = residency_->foreseen_pass()) note_pass(std::move(pass), figures.residency);
  figures.budget = figures.residency.budget;
  if (figures.budget == Bytes{} && configuration_.policy != PolicyKind::kResident) {
    figures.budget = figures.residency.managed_limit;
  }
  figures.context_bytes = context_bytes_;
  figures.headroom = headroom_;
  figures.launches_without_buffers = launches_without_buffers_.load();
  figures.refused_operations = refused_operations_.load();
  figures.tensor_maps = tensor_maps_->encoded();
  figures.link_bytes_per_second = device_memory_.measured_link();
  figures.overhead_ns_p50 = overhead_.quantile(0.5);
  figures.overhead_ns_p99 = overhead_.quantile(0.99);
  figures.async_allocators = configuration_.async_allocators;
  return figures;
}

}  // namespace superpipe

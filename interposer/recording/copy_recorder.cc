#include "interposer/recording/copy_recorder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <new>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "interposer/driver/streams.h"
#include "interposer/driver/table.h"
#include "interposer/hooks/memory_kind.h"
#include "interposer/kernels/word_list.h"
#include "interposer/log.h"
#include "interposer/recording/call_sites.h"

namespace superpipe {
namespace {

// Any key does: no program chooses contents to deceive it. It is the same in every process.
DigestKey fixed_key() {
  std::mt19937_64 numbers(20'210'607);
  DigestKey key{};
  for (std::uint32_t& word : key.words) word = static_cast<std::uint32_t>(numbers());
  for (std::uint64_t& point : key.points) point = numbers() % kDigestPrime;
  return key;
}

std::string name_of_program() {
  std::ifstream file("/proc/self/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

// Launchers of parallel programs give each process its number in one of these: torchrun and what
// follows it, Open MPI, other implementations of PMI (MPICH), and Slurm.
constexpr std::array kRankVariables = {"RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                       "SLURM_PROCID"};

// Processes start in another order each time, and have other ids: what is the same is the rank, and
// the command line, which of ranks may name other ports or folders.
std::string place_of_process() {
  for (const char* const variable : kRankVariables) {
    const char* const rank = std::getenv(variable);
    if (rank != nullptr && *rank != '\0') {
      return std::string(variable) + '=' + rank + ' ' + name_of_program();
    }
  }
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string command{std::istreambuf_iterator<char>(file), {}};
  std::ranges::replace(command, '\0', ' ');
  return command;
}

std::uint64_t now_in_nanoseconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

/// What the calling thread has copied out.
struct ThreadCopies {
  std::uint64_t thread = 0;
  std::uint64_t copies = 0;
};
thread_local ThreadCopies thread_copies;

/// The allocation that `address` is in, as the driver knows it; nullopt if it is no address.
std::optional<std::pair<CUdeviceptr, std::size_t>> allocation_at(CUdeviceptr address) noexcept {
  CUdeviceptr base = 0;
  std::size_t size = 0;
  if (driver().cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address) !=
          CUDA_SUCCESS ||
      driver().cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address) !=
          CUDA_SUCCESS) {
    return std::nullopt;
  }
  return std::pair(base, size);
}

// Whether a word may be the address of device memory: it is no small number, and no pointer has the
// bits above.
bool may_be_address(std::uint64_t word) {
  return word >= (std::uint64_t{1} << 20) && word < (std::uint64_t{1} << 57);
}

}  // namespace

struct CopyRecorder::Queued {
  CopyRecorder* recorder;
  CopyRecord record;
  CopyTarget target;
};

CopyRecorder::CopyRecorder(std::string prefix) : path_(std::move(prefix)), key_(fixed_key()) {}

CopyRecorder::~CopyRecorder() {
  if (file_ >= 0) ::close(file_);
}

void CopyRecorder::start(const std::string& prefix) {
  of_process_.store(new CopyRecorder(prefix), std::memory_order_release);
}

void CopyRecorder::note_copy(const CopyTarget& target, StreamHandle stream,
                             CopyMode mode) noexcept {
  if (target.base == nullptr || target.bytes() == 0) return;
  try {
    CopyRecord record;
    if (thread_copies.thread == 0) thread_copies.thread = ++threads_;
    record.thread = thread_copies.thread;
    record.number = ++thread_copies.copies;
    record.bytes = Bytes{target.bytes()};
    record.site = index_of_call_site();
    record.source = source_of(target.source);
    if ((mode == CopyMode::kAsynchronous && is_capturing(stream)) ||
        is_unified_memory(reinterpret_cast<CUdeviceptr>(target.base))) {
      write_line(copy_line(record));
    } else if (mode == CopyMode::kSynchronous) {
      write(record, target);
    } else if (!is_pinned(target.base)) {
      // The call has waited, as far as is documented; where the device reads pageable memory by
      // itself nothing promises it.
      if (driver().cuStreamSynchronize(driver_stream(stream)) == CUDA_SUCCESS) {
        write(record, target);
      } else {
        write_line(copy_line(record));
      }
    } else {
      // What stands if the process ends before the stream gets there.
      write_line(copy_line(record));
      auto queued = std::make_unique<Queued>(Queued{this, record, target});
      if (driver().cuLaunchHostFunc(driver_stream(stream), digest_queued, queued.get()) ==
          CUDA_SUCCESS) {
        (void)queued.release();
      }
    }
  } catch (...) {
    log_line(LogLevel::kError, "out of memory while a copy was written down: it is missing");
  }
}

void CopyRecorder::digest_queued(void* user_data) {
  const std::unique_ptr<Queued> queued(static_cast<Queued*>(user_data));
  try {
    queued->recorder->write(queued->record, queued->target);
  } catch (...) {
    log_line(LogLevel::kError, "out of memory while a copy was written down: it is missing");
  }
}

void CopyRecorder::write(CopyRecord record, const CopyTarget& target) {
  record.digest = digest(target);
  write_line(copy_line(record));
}

CopyDigest CopyRecorder::digest(const CopyTarget& target) const {
  ContentDigest digest;
  if (target.is_contiguous()) {
    digest = digest_of(key_, std::span(target.base, target.bytes()));
  } else {
    std::vector<std::byte> rows;
    rows.reserve(target.bytes());
    for (std::size_t slice = 0; slice < target.depth; ++slice) {
      for (std::size_t row = 0; row < target.height; ++row) {
        const std::byte* const begin =
            target.base + slice * target.slice_pitch + row * target.pitch;
        rows.insert(rows.end(), begin, begin + target.width);
      }
    }
    digest = digest_of(key_, rows);
  }
  return {digest.first, digest.second};
}

void CopyRecorder::write_line(const std::string& line) {
  const std::lock_guard lock(mutex_);
  if (has_failed_) return;
  std::string text = line;
  if (file_ < 0) {
    // The process that has copied: a forked child may be the first to.
    path_ += '.' + std::to_string(::getpid());
    const std::string name = path_;
    constexpr int kMostFiles = 1000;
    for (int n = 2; n <= kMostFiles; ++n) {
      file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
      if (file_ >= 0 || errno != EEXIST) break;
      path_ = name + '.' + std::to_string(n);
    }
    text = copies_header(::getpid(), now_in_nanoseconds(), name_of_program()) +
           place_line(place_of_process()) + text;
  }
  if (file_ < 0 || !append(text)) {
    has_failed_ = true;
    log_line(LogLevel::kError, path_ + " cannot be written: " + std::strerror(errno) +
                                   "; no more copies are written down");
    // A reader shall not take a part for all.
    if (file_ >= 0) (void)!::ftruncate(file_, 0);
  }
}

// In one call as a rule, so that a process which dies leaves whole lines.
bool CopyRecorder::append(std::string_view text) {
  while (!text.empty()) {
    const ::ssize_t count = ::write(file_, text.data(), text.size());
    if (count < 0 && errno != EINTR) return false;
    text.remove_prefix(static_cast<std::size_t>(std::max<::ssize_t>(count, 0)));
  }
  return true;
}

std::optional<CopySource> CopyRecorder::source_of(CUdeviceptr address) {
  if (address == 0) return std::nullopt;
  const auto allocation = allocation_at(address);
  if (!allocation) return std::nullopt;
  CopySource source;
  source.offset = Bytes{address - allocation->first};
  source.buffer = Bytes{allocation->second};
  const std::lock_guard lock(mutex_);
  const auto named = named_by_.find(allocation->first);
  if (named != named_by_.end()) source.launch = named->second;
  return source;
}

void CopyRecorder::note_launch(CUfunction function, void* const* parameters, void* const* extra,
                               GridSize grid) noexcept {
  try {
    const std::uint64_t number = ++launches_;
    const KernelLayout* layout = layouts_.find(function);
    if (layout == nullptr) layout = layouts_.learn(function);
    if (layout == nullptr) return;
    WordList words;
    if (parameters != nullptr) {
      collect_parameters(*layout, parameters, grid, may_be_address, words);
    } else {
      const ArgumentBuffer buffer = argument_buffer_of(extra);
      collect_bytes(buffer.data, buffer.size, may_be_address, words);
    }
    for (const std::uint64_t word : words.words()) {
      const auto allocation = allocation_at(word);
      if (!allocation) continue;
      const std::size_t kernel = index_of(layout->kernel);
      const std::lock_guard lock(mutex_);
      named_by_[allocation->first] = {kernel, number};
    }
  } catch (...) {
    // Less is known of where later copies come from.
  }
}

void CopyRecorder::forget_allocation(CUdeviceptr base) noexcept {
  const std::lock_guard lock(mutex_);
  named_by_.erase(base);
}

// The kernel's index in the file, where its name is written when it is asked for first.
std::size_t CopyRecorder::index_of(KernelId kernel) {
  std::size_t index = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto [at, is_new] =
        kernels_.try_emplace(static_cast<std::uint64_t>(kernel), kernels_.size());
    if (!is_new) return at->second;
    index = at->second;
  }
  write_line(kernel_line(index, layouts_.readable_name(kernel)));
  return index;
}

// The frames are named without a lock of ours: the loader, which knows the names, has a lock of its
// own, and a thread that holds that may come here.
std::size_t CopyRecorder::index_of_call_site() {
  const CallSite site = call_site_of_hook();
  if (site.count == 0) return 0;
  std::size_t index = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto [at, is_new] = sites_.try_emplace(site.hash(), sites_.size() + 1);
    if (!is_new) return at->second;
    index = at->second;
  }
  write_line(site_line(index, FrameNames().describe(site.frames(), site.python_lines())));
  return index;
}

}  // namespace superpipe

#include "profiler/trace_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>
#include <set>
#include <system_error>
#include <utility>

#include "profiler/trace_chunk.h"
#include "profiler/trace_reader.h"

namespace superpipe {
namespace {

/// The run that the file at `path` is of; nullopt: it is no trace, or of no run.
std::optional<std::string> run_of(const std::string& path) {
  const auto reader = TraceReader::open(path);
  return reader.ok() ? reader->properties().text(kTraceRunKey) : std::nullopt;
}

/// The n-th name for `path`, from 0.
std::string candidate_for(const std::string& path, int n) {
  std::string name = path;
  if (n > 0) name += "." + std::to_string(::getpid());
  if (n > 1) name += "." + std::to_string(n);
  return name;
}

/// Whether `suffix` is what candidate_for() appends.
bool is_suffix(std::string_view suffix) {
  if (suffix.size() < 2 || suffix.front() != '.' || suffix.back() == '.') return false;
  const auto dots = std::count(suffix.begin(), suffix.end(), '.');
  return dots <= 2 && suffix.find_first_not_of(".0123456789") == std::string_view::npos &&
         suffix.find("..") == std::string_view::npos;
}

/// The names from which candidate_for() may have made `path`, which is one of them.
std::vector<std::string> possible_first_names(const std::string& path) {
  std::vector<std::string> names{path};
  const std::string_view whole = path;
  const auto folder_end = path.rfind('/') + 1;  // 0: there is none
  for (auto dot = path.rfind('.'); dot != std::string::npos && dot > folder_end;
       dot = path.rfind('.', dot - 1)) {
    if (!is_suffix(whole.substr(dot))) break;
    names.push_back(path.substr(0, dot));
  }
  return names;
}

/// Whether the file belongs to a process that is writing it, or to another process of the run. Else
/// it is locked now, for as long as it is open. Where locks are not to be had, processes that begin
/// at the same moment may clash.
bool is_taken(int file, const std::string& name, const std::string& run) {
  if (::flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return true;
  return run_of(name) == run;
}

/// The files beside `path` with a name that candidate_for() makes, but `path` itself, by name, that
/// are of the run `run`.
std::vector<std::string> other_files_of(const std::string& path, std::string_view run) {
  std::vector<std::string> files;
  // Names are made as `path` was written, so that no file has two.
  const std::string folder = path.substr(0, path.rfind('/') + 1);  // ends so, unless it is empty
  const std::string name = path.substr(folder.size());
  std::error_code error;
  std::filesystem::directory_iterator entry(folder.empty() ? "." : folder, error);
  const std::filesystem::directory_iterator end;
  for (; !error && entry != end; entry.increment(error)) {
    const std::string other = entry->path().filename().string();
    if (other.rfind(name, 0) != 0 || !is_suffix(other.substr(name.size()))) {
      continue;
    }
    const std::string found = folder + other;
    if (run_of(found) == run) files.push_back(found);
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// Whether the file begins as a trace does, of whatever version.
bool begins_as_trace(int file) {
  std::array<std::byte, kTraceHeaderSize> header{};
  if (::pread(file, header.data(), header.size(), 0) <= 0) return false;
  return read_trace_header(header).problem != TraceHeaderProblem::kForeign;
}

/// Whether `size` bytes more in `file` would leave too little room in its file system.
bool is_nearly_full(int file, std::size_t size) {
  struct statvfs system {};
  // Some file systems do not say.
  if (::fstatvfs(file, &system) != 0 || system.f_blocks == 0) return false;
  constexpr std::uint64_t kMostKept = std::uint64_t{1} << 30;
  constexpr std::uint64_t kPart = 20;
  const std::uint64_t kept = std::min(kMostKept, system.f_blocks * system.f_frsize / kPart);
  return system.f_bavail * system.f_frsize < kept + size;
}

}  // namespace

std::string make_trace_run() {
  std::random_device random;
  char text[32];
  std::snprintf(text, sizeof text, "%08x%08x", random(), random());
  return text;
}

TraceResult<std::unique_ptr<TraceFile>> TraceFile::create(const std::string& path,
                                                          const std::string& run) {
  constexpr int kMostFiles = 1000;
  for (int n = 0; n < kMostFiles; ++n) {
    std::string name = candidate_for(path, n);
    const auto cannot = [&name](int number) {
      return TraceError{TraceError::Kind::kFile,
                        "cannot write " + name + ": " + std::strerror(number)};
    };
    constexpr mode_t kMode = 0644;
    // Not blocking: else the program would wait here until something reads a pipe.
    const int file = ::open(name.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, kMode);
    if (file < 0 && errno == ENXIO) {
      return TraceError{TraceError::Kind::kFile,
                        "cannot write " + name + ": no program reads it; start its reader first"};
    }
    if (file < 0) return cannot(errno);
    struct stat status {};
    const bool is_regular = ::fstat(file, &status) != 0 || S_ISREG(status.st_mode);
    if (is_regular) {
      if (is_taken(file, name, run)) {
        ::close(file);
        continue;
      }
      if (::ftruncate(file, 0) != 0) {
        const int number = errno;
        ::close(file);
        return cannot(number);
      }
    }
    ::fcntl(file, F_SETFL, O_WRONLY);
    return std::unique_ptr<TraceFile>(new TraceFile(std::move(name), file, is_regular));
  }
  return TraceError{TraceError::Kind::kFile, "cannot write " + path + ": it and " +
                                                 std::to_string(kMostFiles) +
                                                 " other names are taken; name another file"};
}

TraceFile::~TraceFile() { close(); }

void TraceFile::close() noexcept {
  const int file = std::exchange(file_, -1);
  if (file >= 0) ::close(file);
}

std::optional<std::string> TraceFile::write(std::span<const std::byte> bytes) {
  if (is_regular_ && is_nearly_full(file_, bytes.size())) {
    return "cannot write " + path_ + ": the file system is nearly full, and others need the rest";
  }
  while (!bytes.empty()) {
    const ::ssize_t count = ::write(file_, bytes.data(), bytes.size());
    if (count >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    } else if (errno != EINTR) {
      return "cannot write " + path_ + ": " + std::strerror(errno);
    }
  }
  return std::nullopt;
}

void remove_former_trace(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return;
  struct stat status {};
  const bool is_file = ::fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  const bool is_written = ::flock(file, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (is_file && !is_written && begins_as_trace(file)) {
    std::error_code error;
    // Of a link, the file that it leads to: the next trace is written there too.
    const auto target = std::filesystem::canonical(path, error);
    if (!error) std::filesystem::remove(target, error);
  }
  ::close(file);
}

bool has_trace_file_of(const std::string& path, std::string_view run) {
  return run_of(path) == run || !other_files_of(path, run).empty();
}

std::vector<std::string> find_trace_files(const std::string& path) {
  std::vector<std::string> files{path};
  const auto run = run_of(path);
  if (!run) return files;
  std::set<std::string> others;
  for (const std::string& first : possible_first_names(path)) {
    if (run_of(first) == run) others.insert(first);
    for (std::string& other : other_files_of(first, *run)) others.insert(std::move(other));
  }
  others.erase(path);
  files.insert(files.end(), others.begin(), others.end());
  return files;
}

}  // namespace superpipe

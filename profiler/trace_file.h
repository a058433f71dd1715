// The files of a trace: which process writes which, and how they are found again.
//
// A run of a program may be several processes, and several contexts one after another in each: all
// that were started, directly or not, by one command. Each context has a file of its own. The first
// takes the name that the user gave; others append the process's id (run.sptrace.4711), and a
// process's further ones a number as well (run.sptrace.4711.2). Files of one run have the same
// kTraceRunKey, so that those of an earlier one, which may lie beside them, are told apart.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/trace_error.h"
#include "profiler/trace_writer.h"

namespace superpipe {

/// The property that names the run.
inline constexpr std::string_view kTraceRunKey = "trace.run";
/// The environment variable that tells the processes of a run its name.
inline constexpr const char* kTraceRunVariable = "SUPERPIPE_TRACE_RUN";

/// The environment variable with the id of the process that a command line of superpipe became:
/// when that one ends, so does what the user started.
inline constexpr const char* kTraceOwnerVariable = "SUPERPIPE_TRACE_OWNER";

/// A name for a run that no other has.
[[nodiscard]] std::string make_trace_run();

/// A file that is written, by this process alone.
class TraceFile final : public TraceSink {
 public:
  /// Creates the file for `path`, or the next name of the run `run` that is free. A file of another
  /// run is overwritten. What is no regular file (a device, a pipe that something reads) is written
  /// as it is.
  /// @return kFile: it cannot be created, or is a pipe that nothing reads.
  [[nodiscard]] static TraceResult<std::unique_ptr<TraceFile>> create(const std::string& path,
                                                                      const std::string& run);
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;
  ~TraceFile() override;

  /// Also refuses to fill a file system to its end, which others need: where it is a regular file,
  /// 1 GiB stays free, or a twentieth of a smaller one.
  [[nodiscard]] std::optional<std::string> write(std::span<const std::byte> bytes) override;
  [[nodiscard]] const std::string& path() const { return path_; }
  /// To be called when write() is not, nor will be. Other processes that have the file open, the
  /// parent of a fork among them, keep it.
  void close() noexcept;

 private:
  TraceFile(std::string path, int file, bool is_regular)
      : path_(std::move(path)), file_(file), is_regular_(is_regular) {}

  const std::string path_;
  int file_;
  const bool is_regular_;
};

/// Removes the trace at `path`, so that it is not taken for that of a run which records nothing.
/// What is no trace, or is being written, stays.
void remove_former_trace(const std::string& path);

/// Whether `path`, or a name that processes of a run derive from it, is a file of the run `run`.
[[nodiscard]] bool has_trace_file_of(const std::string& path, std::string_view run);

/// The files of the run that the trace at `path`, any of them, is of: `path` itself first, the
/// others by name. Those that were renamed or moved to other folders are not found. Where it cannot
/// be read, `path` alone: what reads it then will be told why.
[[nodiscard]] std::vector<std::string> find_trace_files(const std::string& path);

}  // namespace superpipe

// A trace of one managed context: its file, its recorder, and the thread that writes.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "profiler/trace_file.h"
#include "profiler/trace_recorder.h"
#include "residency/own_thread.h"

namespace superpipe {

/// Records from its creation to finish() or abandon().
///
/// Never destroyed while another thread may record: see ManagedContext.
class TraceRecording {
 public:
  using Properties = std::vector<std::pair<std::string, std::string>>;

  /// Creates a file for `path` (see profiler/trace_file.h) that begins with `properties`, and
  /// starts the thread. @return null if that cannot be; the log then says why, in a line that names
  /// SUPERPIPE_TRACE. `kernel_name`: as in TraceRecorder::Options.
  [[nodiscard]] static std::unique_ptr<TraceRecording> start(
      const std::string& path, Properties properties,
      std::function<std::string(KernelId)> kernel_name) noexcept;
  TraceRecording(const TraceRecording&) = delete;
  TraceRecording& operator=(const TraceRecording&) = delete;
  /// Where no finish() and no abandon() came before, it waits for its thread; the file has no end.
  ~TraceRecording();

  [[nodiscard]] TraceRecorder& recorder() noexcept { return recorder_; }

  /// Ends the file. Waits for what is being written, at most `limit`: what the disk has not taken
  /// then is lost, and the file stays open. Calls no driver function.
  /// @return one line for the user that says what was recorded; empty if the file could not be
  /// written to its end, which was said, or if it had ended before.
  std::string finish(std::chrono::milliseconds limit) noexcept;

  /// In the child of a fork: the file and the thread are its parent's.
  void abandon() noexcept;

 private:
  TraceRecording(std::unique_ptr<TraceFile> file, std::chrono::steady_clock::time_point start,
                 TraceRecorder::Options options);

  std::unique_ptr<TraceFile> file_;
  TraceRecorder recorder_;
  std::atomic<bool> has_run_{false};   ///< the thread has written all that it could
  std::atomic<bool> is_whole_{false};  ///< so has the file; to be read after has_run_
  std::atomic<bool> has_finished_{false};
  OwnThread thread_;
};

/// Sees to it that the processes that this one starts record for the same run. To be called before
/// the program's main, because it changes the environment.
void begin_trace_run();

/// Says in a line that nothing was recorded in the file at `path` or beside it, if this process is
/// the one that a command line of superpipe became (kTraceOwnerVariable), and it is so. Called at
/// the process's exit.
void say_if_nothing_was_recorded(const std::string& path) noexcept;

/// The facts about this process and its settings that a trace begins with.
[[nodiscard]] TraceRecording::Properties process_properties();

}  // namespace superpipe

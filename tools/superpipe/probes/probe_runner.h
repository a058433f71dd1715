// Runs a probe in a child process with a time limit: a driver that crashes or hangs is a finding,
// not our end.
#pragma once

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tools/superpipe/probes/probe.h"

namespace superpipe::cli {

/// What became of a question.
struct ProbeResult {
  enum class Outcome {
    kAnswered,      ///< `answer` and `figures` say what
    kNotSupported,  ///< this driver or device cannot do what the question is about
    kFailed,        ///< a driver call answered an error that the probe did not expect
    kCrashed,       ///< its process was ended by a signal
    kTimedOut,      ///< its process did not end within the limit and was ended
    kSkipped,       ///< it was not asked, or something that it needs is not there
  };
  const Probe* probe = nullptr;
  Outcome outcome = Outcome::kSkipped;
  std::string reason;         ///< why there is no answer; empty for kAnswered
  std::string answer;         ///< one line; empty if there is none
  std::optional<bool> holds;  ///< for a question of yes or no
  double seconds = 0;         ///< host time from start to end
  std::string call;           ///< the driver call that failed, or that it was in at its end
  int code = 0;               ///< what that call answered, for kFailed
  int signal = 0;             ///< for kCrashed
  /// Those told before the end, whatever the outcome. An object.
  nlohmann::ordered_json figures = nlohmann::ordered_json::object();
};

/// "answered", "not_supported", "failed", "crashed", "timed_out" or "skipped".
[[nodiscard]] const char* name_of(ProbeResult::Outcome outcome);

/// Told now and then while a probe runs: for how long, and what it does.
using Progress = std::function<void(const Probe&, double seconds, const std::string& step)>;

/// Asks one question. Waits for its child, at most `limit` and the few seconds that ending it
/// takes.
///
/// Not thread-safe: it forks, so call it while the process has one thread and has not opened a
/// driver.
[[nodiscard]] ProbeResult run_probe(const Probe& probe, const ProbeSetting& setting,
                                    std::chrono::milliseconds limit, const Progress& progress);

}  // namespace superpipe::cli

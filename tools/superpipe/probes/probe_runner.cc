#include "tools/superpipe/probes/probe_runner.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <thread>
#include <utility>

#include "tools/superpipe/probes/driver.h"

namespace superpipe::cli {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;
using Outcome = ProbeResult::Outcome;
using std::chrono::milliseconds;

constexpr milliseconds kProgressEvery{5000};
constexpr milliseconds kEndingTakes{5000};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The child's life. Its answer is in the pipe; its exit code says nothing.
[[noreturn]] void be_child(const Probe& probe, const ProbeSetting& setting, int pipe_end, int said,
                           CallInProgress* call) {
  // A group of its own, so that what it starts can be ended with it; and it does not outlive us.
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null >= 0) {
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
  }
  if (said >= 0) dup2(said, STDERR_FILENO);
  note_calls_in(call);
  const ProbeReport report(pipe_end);
  try {
    probe.run(setting, report);
    report.line({{"end", "answered"}});
  } catch (const NotSupported& missing) {
    report.line({{"end", "not_supported"}, {"reason", missing.what()}});
  } catch (const Skipped& missing) {
    report.line({{"end", "skipped"}, {"reason", missing.what()}});
  } catch (const CallFailed& failed) {
    report.line({{"end", "failed"},
                 {"reason", failed.what()},
                 {"call", failed.call()},
                 {"code", failed.code()}});
  } catch (const std::exception& failed) {
    report.line({{"end", "failed"}, {"reason", failed.what()}});
  }
  // The driver's static destructors are left alone: they are not the question.
  _exit(0);
}

Outcome outcome_from(const std::string& name) {
  for (const Outcome outcome : {Outcome::kAnswered, Outcome::kNotSupported, Outcome::kSkipped}) {
    if (name == name_of(outcome)) return outcome;
  }
  return Outcome::kFailed;
}

// Reads lines as they come.
class Reader {
 public:
  explicit Reader(ProbeResult& result) : result_(result) {}

  void take(const char* text, std::size_t length) {
    rest_.append(text, length);
    std::size_t end = 0;
    while ((end = rest_.find('\n')) != std::string::npos) {
      take_line(Json::parse(rest_.substr(0, end), nullptr, false));
      rest_.erase(0, end + 1);
    }
  }
  [[nodiscard]] bool ended() const { return ended_; }
  [[nodiscard]] const std::string& step() const { return step_; }

 private:
  void take_line(const Json& line) {
    if (!line.is_object()) return;
    if (line.contains("figure")) result_.figures[line.value("figure", "")] = line["value"];
    if (line.contains("step")) step_ = line.value("step", "");
    if (line.contains("answer")) {
      result_.answer = line.value("answer", "");
      if (line.contains("holds") && line["holds"].is_boolean()) {
        result_.holds = line["holds"].get<bool>();
      }
    }
    if (line.contains("end")) {
      ended_ = true;
      result_.outcome = outcome_from(line.value("end", ""));
      result_.reason = line.value("reason", "");
      result_.call = line.value("call", "");
      result_.code = line.value("code", 0);
    }
  }

  ProbeResult& result_;
  std::string rest_;
  std::string step_ = "starting";
  bool ended_ = false;
};

// All that comes from `fd` until the last line, until it is closed, or until `end`. False if
// neither came by then.
bool read_until(int fd, Clock::time_point end, Reader& reader, const std::function<void()>& idle) {
  std::array<char, 4096> buffer{};
  while (true) {
    const auto left = std::chrono::duration_cast<milliseconds>(end - Clock::now());
    if (left.count() <= 0) return false;
    pollfd wait{fd, POLLIN, 0};
    const int ready =
        poll(&wait, 1, static_cast<int>(std::min<std::int64_t>(left.count() + 1, 500)));
    idle();
    if (ready < 0 && errno != EINTR) return false;
    if (ready <= 0) continue;
    const ssize_t got = read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return true;
    reader.take(buffer.data(), static_cast<std::size_t>(got));
    if (reader.ended()) return true;  // closing its device can take longer than the answer
  }
}

// Waits for the child at most until `end`; nullopt if it is still there. A process that waits
// inside the kernel's driver cannot be ended, and must not hold us up for ever.
std::optional<int> wait_until(pid_t child, Clock::time_point end) {
  while (true) {
    int status = 0;
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child) return status;
    if (ended < 0 && errno != EINTR) return 0;
    if (Clock::now() >= end) return std::nullopt;
    std::this_thread::sleep_for(milliseconds(2));
  }
}

// The last line that the child wrote to its stderr; empty if there is none.
std::string last_line_in(int said) {
  constexpr off_t kMost = 2000;
  const off_t size = said >= 0 ? lseek(said, 0, SEEK_END) : 0;
  if (size <= 0) return {};
  const off_t start = std::max<off_t>(0, size - kMost);
  std::string text(static_cast<std::size_t>(size - start), '\0');
  const ssize_t got = pread(said, text.data(), text.size(), start);
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const std::size_t before = text.rfind('\n');
  if (before != std::string::npos) text.erase(0, before + 1);
  constexpr std::size_t kLongest = 300;
  return text.substr(0, kLongest);
}

struct Descriptors {
  int read_end = -1, write_end = -1, said = -1;
  ~Descriptors() {
    for (const int fd : {read_end, write_end, said}) {
      if (fd >= 0) close(fd);
    }
  }
};

ProbeResult failed_to_start(ProbeResult result, const char* what) {
  result.outcome = Outcome::kFailed;
  result.reason = std::string(what) + ": " + std::strerror(errno);
  return result;
}

}  // namespace

const char* name_of(ProbeResult::Outcome outcome) {
  switch (outcome) {
    case Outcome::kAnswered:
      return "answered";
    case Outcome::kNotSupported:
      return "not_supported";
    case Outcome::kFailed:
      return "failed";
    case Outcome::kCrashed:
      return "crashed";
    case Outcome::kTimedOut:
      return "timed_out";
    case Outcome::kSkipped:
      return "skipped";
  }
  return "unknown";
}

ProbeResult run_probe(const Probe& probe, const ProbeSetting& setting,
                      std::chrono::milliseconds limit, const Progress& progress) {
  ProbeResult result;
  result.probe = &probe;
  const auto start = Clock::now();
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return failed_to_start(std::move(result), "no pipe");
  Descriptors open_here{ends[0], ends[1], memfd_create("superpipe-probe", MFD_CLOEXEC)};
  void* const shared = mmap(nullptr, sizeof(CallInProgress), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return failed_to_start(std::move(result), "no shared memory");
  auto* const call = new (shared) CallInProgress(nullptr);

  const pid_t child = fork();
  if (child == 0) be_child(probe, setting, open_here.write_end, open_here.said, call);
  if (child < 0) {
    munmap(shared, sizeof(CallInProgress));
    return failed_to_start(std::move(result), "no process");
  }
  setpgid(child, child);  // here too: whoever comes first
  close(std::exchange(open_here.write_end, -1));

  Reader reader(result);
  auto told = start;
  const auto idle = [&] {
    if (!progress || Clock::now() - told < kProgressEvery) return;
    told = Clock::now();
    progress(probe, seconds_since(start), reader.step());
  };
  const bool closed = read_until(open_here.read_end, start + limit, reader, idle);
  // What it started goes with it, and so does a child that answered but does not end.
  std::optional<int> status;
  if (closed) status = wait_until(child, Clock::now() + milliseconds(500));
  kill(-child, SIGKILL);
  if (!status) status = wait_until(child, Clock::now() + kEndingTakes);
  result.seconds = seconds_since(start);

  const char* const last_call = call->load(std::memory_order_relaxed);
  if (!reader.ended()) {
    std::string where = " while " + reader.step();
    if (last_call != nullptr) {
      result.call = last_call;
      where += ", in " + result.call;
    }
    if (!closed) {
      result.outcome = Outcome::kTimedOut;
      result.reason = "no end within " + std::to_string(limit.count()) + " ms" + where;
      if (!status) result.reason += "; its process cannot be ended and was left behind";
    } else {
      result.outcome = Outcome::kCrashed;
      result.signal = status && WIFSIGNALED(*status) ? WTERMSIG(*status) : 0;
      result.reason = (result.signal != 0 ? std::string(strsignal(result.signal))
                                          : std::string("it ended by itself")) +
                      where;
    }
    // What comes behind the answer is not the question, but worth knowing.
    if (!result.answer.empty()) {
      result.figures["after_the_answer"] = std::exchange(result.reason, std::string());
      result.outcome = Outcome::kAnswered;
    }
  }
  if (result.outcome != Outcome::kAnswered && result.outcome != Outcome::kSkipped) {
    const std::string said = last_line_in(open_here.said);
    if (!said.empty()) result.reason += "; it wrote: " + said;
  }
  munmap(shared, sizeof(CallInProgress));
  return result;
}

}  // namespace superpipe::cli

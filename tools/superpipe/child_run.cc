#include "tools/superpipe/child_run.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <system_error>

#include "tools/superpipe/exit_code.h"

namespace superpipe::cli {
namespace {

/// A file descriptor that is closed again.
class File {
 public:
  File(const std::string& path, int flags)
      : number_(::open(path.c_str(), flags | O_CLOEXEC, 0600)) {
    if (number_ < 0) throw std::system_error(errno, std::generic_category(), path);
  }
  ~File() { ::close(number_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  [[nodiscard]] int number() const { return number_; }

 private:
  int number_;
};

/// The terminal's signals ignored while it lives.
class TerminalSignalsIgnored {
 public:
  TerminalSignalsIgnored() {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGINT, &ignore, &interrupt_);
    sigaction(SIGQUIT, &ignore, &quit_);
  }
  ~TerminalSignalsIgnored() { restore(); }
  TerminalSignalsIgnored(const TerminalSignalsIgnored&) = delete;
  TerminalSignalsIgnored& operator=(const TerminalSignalsIgnored&) = delete;

  void restore() const {
    sigaction(SIGINT, &interrupt_, nullptr);
    sigaction(SIGQUIT, &quit_, nullptr);
  }

 private:
  struct sigaction interrupt_ {};
  struct sigaction quit_ {};
};

}  // namespace

std::string ChildEnd::text() const {
  if (signal == 0) return "exit code " + std::to_string(exit_code);
  return "killed by signal " + std::to_string(signal) + " (" + strsignal(signal) + ")";
}

ChildEnd run_child(const std::vector<std::string>& command,
                   const std::vector<EnvironmentChange>& changes, const std::string& output_path,
                   const std::string& error_path) {
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));  // execvp does not write them
  }
  arguments.push_back(nullptr);
  const File input("/dev/null", O_RDONLY);
  const File output(output_path, O_WRONLY | O_CREAT | O_TRUNC);
  const File error(error_path, O_WRONLY | O_CREAT | O_TRUNC);
  const TerminalSignalsIgnored ignored;
  // Where whoever started us ignores it, children leave nothing to wait for.
  std::signal(SIGCHLD, SIG_DFL);
  const auto begun = std::chrono::steady_clock::now();
  const pid_t child = ::fork();
  if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (child == 0) {
    ignored.restore();
    ::dup2(input.number(), STDIN_FILENO);
    ::dup2(output.number(), STDOUT_FILENO);
    ::dup2(error.number(), STDERR_FILENO);
    apply(changes);
    ::execvp(arguments[0], arguments.data());
    ::_exit(errno == ENOENT ? kCommandNotFound : kNotExecutable);
  }
  int status = 0;
  pid_t ended = 0;
  while ((ended = ::waitpid(child, &status, 0)) < 0 && errno == EINTR) {
  }
  if (ended < 0) throw std::system_error(errno, std::generic_category(), "waitpid");
  ChildEnd end;
  end.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  end.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  end.exit_code = end.signal != 0 ? 128 + end.signal : WEXITSTATUS(status);
  return end;
}

}  // namespace superpipe::cli

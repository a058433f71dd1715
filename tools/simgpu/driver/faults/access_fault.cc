#include "tools/simgpu/driver/faults/access_fault.h"

#include <unistd.h>

#include <csetjmp>
#include <csignal>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <mutex>
#include <utility>

#include "tools/simgpu/driver/context/context.h"
#include "tools/simgpu/driver/device/timeline.h"
#include "tools/simgpu/driver/process/log.h"
#include "tools/simgpu/driver/process/statistics.h"

namespace simgpu {
namespace {

struct Guard {
  sigjmp_buf back;
  volatile std::uint64_t address;
};

// Initial-exec: a signal handler must not be the first to allocate the thread's copy.
__attribute__((tls_model("initial-exec"))) thread_local Guard* active_guard = nullptr;

struct Translation {
  FaultAddresses::Translate translate = nullptr;
  const void* argument = nullptr;
};
thread_local Translation fault_addresses;

constexpr int kSignals[] = {SIGSEGV, SIGBUS};
struct sigaction previous_handlers[2];

void handle_fault(int signal, siginfo_t* info, void* machine_context) {
  if (Guard* const guard = active_guard) {
    guard->address = reinterpret_cast<std::uint64_t>(info->si_addr);
    active_guard = nullptr;
    siglongjmp(guard->back, 1);
  }
  if (signal == SIGSEGV && info->si_code == SEGV_PKUERR) {
    static constexpr char kLine[] =
        "simgpu: host code accessed device memory, which a GPU's program cannot "
        "(SIMGPU_HOST_ACCESS=allowed lets it)\n";
    (void)!::write(STDERR_FILENO, kLine, sizeof(kLine) - 1);
  }
  // Not device code: the handler that the program had installed before decides.
  const struct sigaction& previous = previous_handlers[signal == SIGSEGV ? 0 : 1];
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(signal, info, machine_context);
  } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(signal);
  } else {
    // The faulting instruction runs again, and then kills the process as it would have.
    ::signal(signal, SIG_DFL);
  }
}

/// Installs the handler for `kSignals[index]` unless it is the one in force. The program may have
/// installed its own since then: this one goes in front of it again and calls it for other faults.
void ensure_handler(int index) noexcept {
  struct sigaction current {};
  if (sigaction(kSignals[index], nullptr, &current) != 0) return;
  if ((current.sa_flags & SA_SIGINFO) != 0 && current.sa_sigaction == handle_fault) return;
  static std::mutex mutex;
  const std::lock_guard lock{mutex};
  struct sigaction ours {};
  ours.sa_sigaction = handle_fault;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigemptyset(&ours.sa_mask);
  if (sigaction(kSignals[index], nullptr, &current) != 0 ||
      ((current.sa_flags & SA_SIGINFO) != 0 && current.sa_sigaction == handle_fault)) {
    return;
  }
  previous_handlers[index] = current;
  sigaction(kSignals[index], &ours, nullptr);
}

void break_by_access(Context& context, const std::string& label, std::uint64_t address) {
  statistics().unmapped_accesses.fetch_add(1, std::memory_order_relaxed);
  log_line(LogLevel::kError, "%s accessed 0x%llx, which is not mapped: illegal address (error 700)",
           label.c_str(), static_cast<unsigned long long>(address));
  context.set_sticky_error(CUDA_ERROR_ILLEGAL_ADDRESS);
}

/// The handler runs with SA_NODEFER, so that there is no signal mask to restore. Separate from
/// run_guarded() so that no object with a destructor lives across sigsetjmp.
__attribute__((noinline)) bool survives(Guard& guard, const std::function<void()>& body) {
  if (sigsetjmp(guard.back, 0) != 0) return false;
  active_guard = &guard;
  body();
  active_guard = nullptr;
  return true;
}

}  // namespace

FaultAddresses::FaultAddresses(Translate translate, const void* argument) noexcept {
  fault_addresses = {translate, argument};
}

FaultAddresses::~FaultAddresses() { fault_addresses = {}; }

bool run_guarded(Context& context, const std::string& label, const std::function<void()>& body) {
  // The check takes two system calls, too many for every operation of a busy stream.
  constexpr Nanoseconds kCheckEvery = 1'000'000;
  thread_local Nanoseconds checked = 0;
  if (const Nanoseconds now = now_ns(); now - checked > kCheckEvery) {
    install_fault_handlers();
    checked = now;
  }
  Guard guard;
  guard.address = 0;
  try {
    if (survives(guard, body)) return true;
    const Translation of_copies = std::exchange(fault_addresses, {});
    const std::uint64_t address = guard.address;
    break_by_access(context, label,
                    of_copies.translate == nullptr
                        ? address
                        : of_copies.translate(of_copies.argument, address));
  } catch (const AccessFault& fault) {
    active_guard = nullptr;
    break_by_access(context, label, fault.address);
  } catch (const std::exception& error) {
    active_guard = nullptr;
    log_line(LogLevel::kError, "%s failed: %s (error 719)", label.c_str(), error.what());
    context.set_sticky_error(CUDA_ERROR_LAUNCH_FAILED);
  } catch (...) {
    active_guard = nullptr;
    log_line(LogLevel::kError, "%s failed with an unknown exception (error 719)", label.c_str());
    context.set_sticky_error(CUDA_ERROR_LAUNCH_FAILED);
  }
  return false;
}

void install_fault_handlers() noexcept {
  ensure_handler(0);
  ensure_handler(1);
}

}  // namespace simgpu

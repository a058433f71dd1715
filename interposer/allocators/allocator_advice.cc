#include "interposer/allocators/allocator_advice.h"

#include <signal.h>
#include <unistd.h>

#include <mutex>
#include <new>
#include <string>

#include "interposer/allocators/framework_environment.h"
#include "interposer/driver/loader.h"
#include "interposer/log.h"

// What follows the program's end in the line.
#define SUPERPIPE_ALLOCATOR_ADVICE                                                                \
  ". PyTorch allocated with backend:cudaMallocAsync, which superpipe chose: memory snapshots, "   \
  "torch.cuda.MemPool, mode=\"reduce-overhead\" and captures over several streams fail with it. " \
  "If the error is one of these, run the program with --allocator native "                        \
  "(SUPERPIPE_ALLOCATOR=native)"

namespace superpipe {
namespace {

bool allocates_by_our_choice() noexcept { return chose_pytorch_allocator() && is_pytorch_loaded(); }

// Written before the handler is there.
struct sigaction former_handler {};
pid_t process_of_handler = 0;

// A forked child inherits the handler, and has nothing to say.
void say_when_aborted(int signal) noexcept {
  if (::getpid() == process_of_handler) {
    log_line_in_signal(LogLevel::kWarning, "the program was aborted" SUPERPIPE_ALLOCATOR_ADVICE);
  }
  ::sigaction(signal, &former_handler, nullptr);
  ::raise(signal);
}

void handle_aborts() noexcept {
  if (!allocates_by_our_choice()) return;
  if (::sigaction(SIGABRT, nullptr, &former_handler) != 0) return;
  if (former_handler.sa_handler == SIG_IGN) return;
  process_of_handler = ::getpid();
  struct sigaction ours {};
  ours.sa_handler = say_when_aborted;
  ours.sa_flags = SA_NODEFER | SA_ONSTACK;  // it raises the signal again
  ::sigaction(SIGABRT, &ours, nullptr);
}

}  // namespace

void say_allocator_of_failed_program(int exit_code) noexcept try {
  if (exit_code == 0 || !driver_is_loaded() || !allocates_by_our_choice()) return;
  log_line(LogLevel::kWarning, "the program ended with exit code " + std::to_string(exit_code) +
                                   SUPERPIPE_ALLOCATOR_ADVICE);
} catch (const std::bad_alloc&) {
  // It goes unsaid.
}

void say_allocator_when_aborted() noexcept {
  static std::once_flag once;
  std::call_once(once, handle_aborts);
}

}  // namespace superpipe

#include "interposer/budget_requests.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <utility>

namespace superpipe {

namespace {

/// How often figures are published while pages still exceed a new limit, and for how long at most
/// the thread sleeps otherwise. It is woken for each request.
constexpr std::chrono::milliseconds kWatchedRest{10};
constexpr std::chrono::milliseconds kLongestSleep{60'000};

}  // namespace

BudgetRequests::BudgetRequests(std::unique_ptr<LiveSegment> segment, Actions actions)
    : segment_(std::move(segment)), actions_(std::move(actions)), owner_(::getpid()) {
  segment_->publish(actions_.figures());
  // The program's signal handlers must not run on a thread of ours.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { main(); });
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void BudgetRequests::main() {
  while (!ended_) {
    if (const auto request = segment_->next_request()) {
      serve(*request);
    } else if (watched_) {
      const LiveFigures figures = actions_.figures();
      segment_->publish(figures);
      watched_ = figures.pages > figures.limit;
      if (watched_) segment_->wait_for_request(kWatchedRest);
    } else {
      segment_->wait_for_request(kLongestSleep);
    }
  }
  exited_ = true;
}

void BudgetRequests::serve(const LiveSegment::Request& request) {
  BudgetAnswer answer = BudgetAnswer::kChanged;
  if (request.budget) answer = actions_.set_budget(*request.budget);
  segment_->publish(actions_.figures());
  segment_->answer(request.sequence, answer);
  watched_ = true;
}

void BudgetRequests::stop() noexcept {
  if (::getpid() != owner_ || segment_ == nullptr) return;
  ended_ = true;
  segment_->interrupt();
  if (thread_.joinable()) thread_.join();
  segment_.reset();
}

bool BudgetRequests::abandon() noexcept {
  if (::getpid() != owner_) {
    if (thread_.joinable()) thread_.detach();  // the child of a fork has no such thread
    return false;
  }
  if (!thread_.joinable()) return true;
  ended_ = true;
  segment_->interrupt();
  segment_->remove();
  for (int i = 0; i < 200 && !exited_; ++i) ::usleep(1000);
  if (!exited_) {
    thread_.detach();
    return false;
  }
  thread_.join();
  return true;
}

}  // namespace superpipe

#include "interposer/budget_requests.h"

#include <chrono>
#include <system_error>
#include <utility>

namespace superpipe {

namespace {

/// How often figures are published while pages still exceed a new limit, and for how long at most
/// the thread sleeps otherwise. It is woken for each request.
constexpr std::chrono::milliseconds kWatchedRest{10};
constexpr std::chrono::milliseconds kLongestSleep = LiveSegment::kLongestWait;

}  // namespace

BudgetRequests::BudgetRequests(std::unique_ptr<LiveSegment> segment, Actions actions,
                               std::unique_ptr<RunProgress> progress)
    : segment_(std::move(segment)),
      actions_(std::move(actions)),
      progress_(std::move(progress)),
      shows_progress_(progress_ != nullptr) {
  segment_->publish(actions_.figures());
  if (!thread_.start("superpipe-live", [this] { main(); })) {
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
  }
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
    } else if (shows_progress_) {
      shows_progress_ = progress_->tick(actions_.figures, RunProgress::Clock::now());
      if (shows_progress_) segment_->wait_for_request(RunProgress::kInterval);
    } else {
      segment_->wait_for_request(kLongestSleep);
    }
  }
}

void BudgetRequests::serve(const LiveSegment::Request& request) {
  BudgetAnswer answer = BudgetAnswer::kChanged;
  if (request.budget) answer = actions_.set_budget(*request.budget);
  segment_->publish(actions_.figures());
  segment_->answer(request, answer);
  if (request.budget) watched_ = true;
}

void BudgetRequests::end_progress() noexcept {
  // The child of a fork may have inherited a mutex that no thread will ever unlock.
  if (progress_ != nullptr && thread_.is_owner()) progress_->end();
}

void BudgetRequests::stop() noexcept {
  if (!thread_.is_owner() || segment_ == nullptr) return;
  ended_ = true;
  segment_->interrupt();
  thread_.join();
  end_progress();
  segment_.reset();
}

bool BudgetRequests::abandon(std::chrono::milliseconds patience) noexcept {
  if (thread_.is_owner() && thread_.is_started()) {
    ended_ = true;
    segment_->interrupt();
    segment_->remove();
  }
  return thread_.abandon(patience) && thread_.is_owner();
}

}  // namespace superpipe

#include "interposer/reports/run_progress.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "policy/budget.h"

namespace superpipe {
namespace {

std::string milliseconds_text(std::uint64_t nanoseconds) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f ms", static_cast<double>(nanoseconds) / 1e6);
  return text.data();
}

}  // namespace

std::string progress_text(const LiveFigures& figures, bool is_loading, std::size_t columns) {
  std::string stage = "superpipe[" + std::to_string(::getpid()) + "]: ";
  std::string bound;
  if (is_loading) {
    stage += "loading";
  } else if (figures.passes == 0) {
    stage += "first pass, " + std::to_string(figures.launches) + " launches";
  } else {
    stage += "pass " + std::to_string(figures.passes) + ' ' + milliseconds_text(figures.pass_ns);
    if (figures.bound_ns > 0) bound = " (bound " + milliseconds_text(figures.bound_ns) + ')';
  }
  // Pages are kept for buffers to come, too.
  const Bytes on_device = std::min(figures.pages, figures.live);
  std::string loaded =
      "; " + format_bytes(on_device) + " of " + format_bytes(figures.live) + " on device";
  std::string moved;
  if (figures.h2d + figures.d2h > Bytes{}) {
    moved = "; " + format_bytes(figures.h2d) + " in, " + format_bytes(figures.d2h) + " out";
  }
  std::string layers;
  if (figures.layers > 0) layers = "; " + std::to_string(figures.layers) + " layers";
  const auto length = [&] {
    return stage.size() + bound.size() + loaded.size() + moved.size() + layers.size();
  };
  for (std::string* const field : {&layers, &loaded, &bound, &moved}) {
    if (length() > columns) field->clear();
  }
  return stage + bound + loaded + moved + layers;
}

bool RunProgress::tick(const std::function<LiveFigures()>& figures,
                       Clock::time_point now) noexcept {
  const std::lock_guard lock(mutex_);
  if (line_ == nullptr) return false;
  try {
    if (update(figures, now)) return true;
  } catch (...) {
    // Most likely out of memory, which the program will notice too. It can do without the line.
  }
  line_->erase();
  line_.reset();
  return false;
}

// Whether there is more to come. REQUIRES: mutex_ is held, and there is a line.
bool RunProgress::update(const std::function<LiveFigures()>& figures, Clock::time_point now) {
  if (last_tick_ && now - *last_tick_ < kInterval) return true;
  last_tick_ = now;
  const LiveFigures current = figures();
  const Seen seen{current.live, current.launches, current.h2d};
  const bool grows = current.live > seen_.live;
  if (!changed_ || seen != seen_) changed_ = now;
  seen_ = seen;
  if (current.launches > 0 && !first_launch_) first_launch_ = now;
  if (current.passes >= kFirstPasses || now - *changed_ > kLongest ||
      (first_launch_ && now - *first_launch_ > kLongest)) {
    return false;
  }
  // Launches between two allocations convert what is loaded, as .half() does, and are no pass.
  const bool is_loading = current.launches == 0 || (current.passes == 0 && grows);
  line_->show(progress_text(current, is_loading, line_->columns()), now);
  return true;
}

void RunProgress::end() noexcept {
  const std::unique_lock lock(mutex_, std::chrono::milliseconds{100});
  if (!lock.owns_lock() || line_ == nullptr) return;
  line_->erase();
  line_.reset();
}

}  // namespace superpipe

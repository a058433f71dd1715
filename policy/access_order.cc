#include "policy/access_order.h"

#include <algorithm>
#include <utility>

namespace superpipe {
namespace {

constexpr double kConfidenceWeight = 1.0 / 16.0;
constexpr std::size_t kMatchTokens = 16;
constexpr std::size_t kMaxMatchFactor = 1 << 10;
constexpr int kMaxCandidates = 8;
constexpr std::size_t kMinSlots = 64;  // a power of two
constexpr std::uint64_t kHashMultiplier = 0x9E3779B97F4A7C15U;

}  // namespace

void SuccessorTable::observe(Symbol symbol) {
  if (seen_ == 2) {
    if (successors_.size() >= capacity_) successors_.clear();
    const auto [entry, is_new] =
        successors_.try_emplace(context_of(before_, last_), Successor{symbol, false});
    const bool right = !is_new && entry->second.symbol == symbol;
    if (right) {
      entry->second.doubted = false;
    } else if (!is_new) {
      if (entry->second.doubted) entry->second.symbol = symbol;
      entry->second.doubted = !entry->second.doubted;
    }
    confidence_ += kConfidenceWeight * ((right ? 1.0 : 0.0) - confidence_);
  } else {
    ++seen_;
  }
  before_ = last_;
  last_ = symbol;
}

void SuccessorTable::clear() {
  successors_.clear();
  seen_ = 0;
  confidence_ = 0.0;
}

bool PeriodDetector::recurs(std::size_t period, std::size_t length) const {
  const std::size_t end = tokens_.size();
  if (period + length > end) return false;
  for (std::size_t back = 1; back <= length; ++back) {
    if (tokens_[end - back] != tokens_[end - back - period]) return false;
  }
  return true;
}

std::uint32_t& PeriodDetector::slot_of(std::uint64_t token) {
  if (2 * distinct_ >= latest_.size()) grow();
  const std::size_t mask = latest_.size() - 1;
  std::size_t at = static_cast<std::size_t>((token * kHashMultiplier) >> 32) & mask;
  while (latest_[at] != 0 && tokens_[latest_[at] - 1] != token) at = (at + 1) & mask;
  if (latest_[at] == 0) ++distinct_;
  return latest_[at];
}

void PeriodDetector::grow() {
  const std::vector<std::uint32_t> before = std::move(latest_);
  latest_.assign(std::max(kMinSlots, 2 * before.size()), 0);
  distinct_ = 0;
  for (const std::uint32_t latest : before) {
    if (latest != 0) slot_of(tokens_[latest - 1]) = latest;
  }
}

std::optional<PeriodDetector::Period> PeriodDetector::observe(std::uint64_t token) {
  if (!would_count(token)) return std::nullopt;
  if (tokens_.size() >= capacity_) clear();
  const std::size_t at = tokens_.size();
  tokens_.push_back(token);
  std::uint32_t& latest = slot_of(token);
  previous_.push_back(latest);
  latest = static_cast<std::uint32_t>(at + 1);

  std::size_t candidate = at;
  for (int tried = 0; tried < kMaxCandidates && previous_[candidate] != 0; ++tried) {
    candidate = previous_[candidate] - 1;
    const std::size_t period = at - candidate;
    if (!recurs(period, std::min(period, kMatchTokens) * match_factor_)) continue;
    std::size_t first = candidate;
    while (first > 0 && tokens_[first - 1] == tokens_[first - 1 + period]) --first;
    return Period{first, period};
  }
  return std::nullopt;
}

void PeriodDetector::require_longer_match() {
  match_factor_ = std::min(match_factor_ * 2, kMaxMatchFactor);
}

void PeriodDetector::clear() {
  tokens_.clear();
  previous_.clear();
  std::fill(latest_.begin(), latest_.end(), 0);
  distinct_ = 0;
}

}  // namespace superpipe

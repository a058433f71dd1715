#include "tools/superpipe/report/binned_series.h"

#include <algorithm>

namespace superpipe::cli {

void BinnedSums::cover(std::uint64_t end) {
  end = std::min(end, kLatestBinNs);
  while (end / width_ >= most_bins_) {
    for (std::size_t i = 0; i < bins_.size(); i += 2) {
      bins_[i / 2] = bins_[i] + (i + 1 < bins_.size() ? bins_[i + 1] : 0);
    }
    bins_.resize((bins_.size() + 1) / 2);
    width_ *= 2;
  }
  if (end / width_ >= bins_.size()) bins_.resize(end / width_ + 1);
}

void BinnedSums::add(std::uint64_t time, double amount) {
  cover(time);
  bins_[std::min(time, kLatestBinNs) / width_] += amount;
}

void BinnedSums::spread(std::uint64_t begin, std::uint64_t end, double amount) {
  end = std::min(end, kLatestBinNs);
  if (begin >= end) return add(begin, amount);
  cover(end);
  const double rate = amount / static_cast<double>(end - begin);
  double left = amount;
  for (std::uint64_t bin = begin / width_; bin <= end / width_; ++bin) {
    const std::uint64_t until = std::min(end, (bin + 1) * width_);
    const std::uint64_t since = std::max(begin, bin * width_);
    // The last bin takes what rounding left over, so that nothing is lost.
    const double part = until == end ? left : rate * static_cast<double>(until - since);
    bins_[bin] += part;
    left -= part;
    if (until == end) break;
  }
}

void BinnedLevel::halve() {
  for (std::size_t i = 0; i < bins_.size(); i += 2) {
    Bin both = bins_[i];
    if (i + 1 < bins_.size()) {
      const Bin& second = bins_[i + 1];
      both = {std::min(both.least, second.least), std::max(both.most, second.most),
              both.integral + second.integral};
    }
    bins_[i / 2] = both;
  }
  bins_.resize((bins_.size() + 1) / 2);
  width_ *= 2;
}

void BinnedLevel::cover(std::uint64_t end) {
  end = std::clamp(end, time_, kLatestBinNs);
  while (end / width_ >= most_bins_) halve();
  if (bins_.empty()) bins_.push_back({value_, value_, 0});
  const auto level = static_cast<double>(value_);
  while (end / width_ >= bins_.size()) {
    const std::uint64_t until = bins_.size() * width_;
    bins_.back().integral += level * static_cast<double>(until - time_);
    time_ = until;
    bins_.push_back({value_, value_, 0});
  }
  bins_.back().integral += level * static_cast<double>(end - time_);
  time_ = end;
}

void BinnedLevel::set(std::uint64_t time, std::uint64_t value) {
  cover(time);
  value_ = value;
  Bin& bin = bins_.back();
  bin.least = std::min(bin.least, value);
  bin.most = std::max(bin.most, value);
  if (value <= peak_) return;
  peak_ = value;
  peak_time_ = time_;
}

}  // namespace superpipe::cli

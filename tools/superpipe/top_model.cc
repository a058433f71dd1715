#include "tools/superpipe/top_model.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace superpipe::cli {

std::optional<Rates> rates_between(const LiveFigures& before, const LiveFigures& after) {
  if (after.taken_ns <= before.taken_ns) return std::nullopt;
  Rates rates;
  rates.seconds = static_cast<double>(after.taken_ns - before.taken_ns) * 1e-9;
  bool grows = true;
  const auto rate = [&](std::uint64_t earlier, std::uint64_t later) {
    grows = grows && later >= earlier;
    return grows ? static_cast<double>(later - earlier) / rates.seconds : 0.0;
  };
  rates.h2d = rate(before.h2d.count(), after.h2d.count());
  rates.d2h = rate(before.d2h.count(), after.d2h.count());
  rates.launches = rate(before.launches, after.launches);
  rates.passes = rate(before.passes, after.passes);
  rates.fetches = rate(before.fetches(), after.fetches());
  rates.evictions = rate(before.evictions(), after.evictions());
  rates.stall = rate(before.stall_ns, after.stall_ns) * 1e-9;
  return grows ? std::optional(rates) : std::nullopt;
}

void History::add(double value) {
  values_.push_back(value);
  if (values_.size() > kLength) values_.pop_front();
}

double History::largest() const {
  return values_.empty() ? 0.0 : *std::ranges::max_element(values_);
}

std::optional<double> TopRow::over_bound() const {
  const LiveFigures& figures = look.figures;
  if (look.problem || figures.pass_ns == 0 || figures.bound_ns == 0) return std::nullopt;
  return static_cast<double>(figures.pass_ns) / static_cast<double>(figures.bound_ns);
}

std::string_view name_of(TopOrder order) {
  switch (order) {
    case TopOrder::kPid:
      return "process";
    case TopOrder::kPages:
      return "pages";
    case TopOrder::kFetch:
      return "fetch rate";
    case TopOrder::kStall:
      break;
  }
  return "stall";
}

void TopModel::update(const std::vector<ProcessLook>& looks) {
  const int chosen_pid = rows_.empty() ? 0 : rows_[chosen_].look.pid;
  std::vector<TopRow> rows;
  for (const ProcessLook& look : looks) {
    const auto known = std::ranges::find_if(rows_, [&](const TopRow& row) {
      return row.look.pid == look.pid && row.look.start_time == look.start_time;
    });
    TopRow row;
    if (known != rows_.end()) row = std::move(*known);
    const bool had_figures = known != rows_.end() && !row.look.problem;
    const LiveFigures before = row.look.figures;
    row.look = look;
    if (look.problem || !look.answers) {
      row.rates.reset();
    } else if (!had_figures || look.figures.taken_ns != before.taken_ns) {
      row.rates = had_figures ? rates_between(before, look.figures) : std::nullopt;
      row.pages.add(static_cast<double>(look.figures.pages.count()));
      if (row.rates) {
        row.fetch.add(row.rates->h2d);
        row.stall.add(row.rates->stall);
      }
    }
    rows.push_back(std::move(row));
  }
  // Where the chosen process has gone, the row that took its place is chosen.
  rows_ = std::move(rows);
  chosen_ = rows_.empty() ? 0 : std::min(chosen_, rows_.size() - 1);
  sort();
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (rows_[i].look.pid == chosen_pid) chosen_ = i;
  }
}

void TopModel::next_order() {
  order_ = order_ == TopOrder::kStall ? TopOrder::kPid
                                      : static_cast<TopOrder>(static_cast<int>(order_) + 1);
  const int pid = rows_.empty() ? 0 : rows_[chosen_].look.pid;
  sort();
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (rows_[i].look.pid == pid) chosen_ = i;
  }
}

void TopModel::move_choice(int steps) {
  if (rows_.empty()) return;
  const auto last = static_cast<std::int64_t>(rows_.size()) - 1;
  const std::int64_t wanted = static_cast<std::int64_t>(chosen_) + steps;
  chosen_ = static_cast<std::size_t>(std::clamp<std::int64_t>(wanted, 0, last));
}

void TopModel::sort() {
  const auto value = [this](const TopRow& row) {
    if (row.look.problem) return -1.0;
    switch (order_) {
      case TopOrder::kPid:
        break;
      case TopOrder::kPages:
        return static_cast<double>(row.look.figures.pages.count());
      case TopOrder::kFetch:
        return row.rates ? row.rates->h2d : 0.0;
      case TopOrder::kStall:
        return row.rates ? row.rates->stall : 0.0;
    }
    return 0.0;
  };
  std::ranges::sort(rows_, [&](const TopRow& left, const TopRow& right) {
    const double a = order_ == TopOrder::kPid ? 0.0 : value(left);
    const double b = order_ == TopOrder::kPid ? 0.0 : value(right);
    return a != b ? a > b : left.look.pid < right.look.pid;
  });
}

}  // namespace superpipe::cli

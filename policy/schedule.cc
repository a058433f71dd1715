#include "policy/schedule.h"

#include <algorithm>

namespace superpipe {

std::optional<Window> window_at(const WindowSchedule& schedule, std::uint64_t visit) {
  const std::uint64_t position = visit % schedule.visits;
  switch (schedule.kind) {
    case WindowKind::kNaive:
      if (position % schedule.k != 0) return std::nullopt;
      break;
    case WindowKind::kSuperpipeline:
      if (visit % schedule.k_prime != 0) return std::nullopt;
      break;
    case WindowKind::kSuperpipelinePaper:
      if (position % schedule.k_prime != 0) return std::nullopt;
      break;
  }
  Window window = window_from(schedule, visit);
  window.wait = schedule.kind == WindowKind::kNaive ||
                (schedule.kind == WindowKind::kSuperpipelinePaper && position == 0);
  return window;
}

Window window_from(const WindowSchedule& schedule, std::uint64_t visit) {
  const std::uint64_t position = visit % schedule.visits;
  const std::uint64_t left_in_pass = schedule.visits - position;
  switch (schedule.kind) {
    case WindowKind::kNaive:
      // Ends where the schedule's next window begins.
      return {visit, std::min<std::uint64_t>(schedule.k - position % schedule.k, left_in_pass),
              true};
    case WindowKind::kSuperpipelinePaper:
      return {visit, std::min<std::uint64_t>(schedule.k, left_in_pass), false};
    case WindowKind::kSuperpipeline:
      break;
  }
  return {visit, schedule.k, false};
}

Bytes max_window_bytes(const VisitNeeds& needs, std::span<const Bytes> item_bytes, std::size_t k) {
  const std::size_t visits = needs.size();
  if (visits == 0 || k == 0) return Bytes{};
  k = std::min(k, visits);
  std::vector<std::uint32_t> uses(item_bytes.size(), 0);
  Bytes now;
  Bytes most;
  for (std::size_t at = 0; at < visits + k - 1; ++at) {
    for (const std::uint32_t item : needs[at % visits]) {
      if (uses[item]++ == 0) now += item_bytes[item];
    }
    if (at + 1 < k) continue;
    most = std::max(most, now);
    for (const std::uint32_t item : needs[(at + 1 - k) % visits]) {
      if (--uses[item] == 0) now -= item_bytes[item];
    }
  }
  return most;
}

std::size_t largest_fitting_k(const VisitNeeds& needs, std::span<const Bytes> item_bytes,
                              Bytes available) {
  std::size_t fits = 0;
  std::size_t above = needs.size() + 1;
  while (fits + 1 < above) {
    const std::size_t k = fits + (above - fits) / 2;
    if (max_window_bytes(needs, item_bytes, k) <= available) {
      fits = k;
    } else {
      above = k;
    }
  }
  return fits;
}

}  // namespace superpipe

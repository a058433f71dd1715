#include "policy/schedule.h"

#include <algorithm>

namespace superpipe {

std::optional<Window> window_at(const WindowSchedule& schedule, std::uint64_t visit) {
  const std::uint64_t position = visit % schedule.visits;
  const bool is_naive = schedule.kind == WindowKind::kNaive;
  if (position % (is_naive ? schedule.k : schedule.k_prime) != 0) return std::nullopt;
  Window window = window_from(schedule, visit);
  window.wait = is_naive || position == 0;
  return window;
}

Window window_from(const WindowSchedule& schedule, std::uint64_t visit) {
  const std::uint64_t position = visit % schedule.visits;
  const std::uint64_t left_in_pass = schedule.visits - position;
  const bool is_naive = schedule.kind == WindowKind::kNaive;
  // A naive one ends where the schedule's next window begins.
  const std::uint64_t count = is_naive ? schedule.k - position % schedule.k : schedule.k;
  return {visit, std::min(count, left_in_pass), is_naive};
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

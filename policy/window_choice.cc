#include "policy/window_choice.h"

#include <algorithm>

namespace superpipe {
namespace {

std::size_t choose_k(const PolicyConfig& config, const WindowDemand& demand, Bytes room) {
  if (!counts_layers(config.kind)) return demand.layers;
  if (config.k) return std::min(static_cast<std::size_t>(*config.k), demand.layers);
  if (!config.budget || demand.layers_bytes <= room || demand.layers < 2) return demand.layers;
  const std::size_t fits = largest_fitting_k(demand.needs, demand.footprints, room);
  return std::clamp(fits, std::size_t{1}, demand.layers - 1);
}

WindowKind kind_of(const PolicyConfig& config, std::size_t k) {
  const bool is_naive = config.kind == PolicyKind::kNaive || k <= 1;
  return is_naive ? WindowKind::kNaive : WindowKind::kSuperpipelinePaper;
}

}  // namespace

WindowChoice choose_windows(const PolicyConfig& config, const WindowDemand& demand, Bytes room) {
  const std::size_t k = choose_k(config, demand, room);
  WindowChoice choice;
  choice.active = k < demand.layers;
  choice.window_bytes = demand.layers_bytes;
  choice.wider_bytes = demand.layers_bytes;
  if (choice.active) {
    choice.window_bytes = max_window_bytes(demand.needs, demand.footprints, k);
    if (k + 1 < demand.layers) {
      choice.wider_bytes = max_window_bytes(demand.needs, demand.footprints, k + 1);
    }
  }
  WindowSchedule& schedule = choice.schedule;
  schedule.kind = kind_of(config, k);
  schedule.k = std::max<std::size_t>(k, 1);
  schedule.visits = std::max<std::size_t>(demand.needs.size(), 1);
  if (schedule.kind == WindowKind::kNaive) {
    schedule.k_prime = schedule.k;
  } else if (config.k_prime && static_cast<std::size_t>(*config.k_prime) < k) {
    schedule.k_prime = static_cast<std::size_t>(*config.k_prime);
  } else {
    schedule.k_prime = k / 2;
  }
  return choice;
}

}  // namespace superpipe

#include "tools/superpipe/planner/cards.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <system_error>
#include <utility>

namespace superpipe::cli {
namespace {

// Memory and link are those of NVIDIA's data sheets and product pages for each card.
constexpr std::array kCards = {
    Card{"t4", "Tesla T4", 16_GiB, "gen3"},
    Card{"v100", "Tesla V100 PCIe 32 GB", 32_GiB, "gen3"},
    Card{"rtx2080ti", "GeForce RTX 2080 Ti", 11_GiB, "gen3"},
    Card{"rtx3060", "GeForce RTX 3060", 12_GiB, "gen4"},
    Card{"rtx3090", "GeForce RTX 3090", 24_GiB, "gen4"},
    Card{"rtx4060ti", "GeForce RTX 4060 Ti 16 GB", 16_GiB, "gen4x8"},
    Card{"rtx4070", "GeForce RTX 4070", 12_GiB, "gen4"},
    Card{"rtx4080", "GeForce RTX 4080", 16_GiB, "gen4"},
    Card{"rtx4090", "GeForce RTX 4090", 24_GiB, "gen4"},
    Card{"rtx5070ti", "GeForce RTX 5070 Ti", 16_GiB, "gen5"},
    Card{"rtx5080", "GeForce RTX 5080", 16_GiB, "gen5"},
    Card{"rtx5090", "GeForce RTX 5090", 32_GiB, "gen5"},
    Card{"a10", "A10", 24_GiB, "gen4"},
    Card{"l4", "L4", 24_GiB, "gen4"},
    Card{"a6000", "RTX A6000", 48_GiB, "gen4"},
    Card{"rtx6000ada", "RTX 6000 Ada", 48_GiB, "gen4"},
    Card{"l40s", "L40S", 48_GiB, "gen4"},
    Card{"a100", "A100 PCIe 40 GB", 40_GiB, "gen4"},
    Card{"a100-80", "A100 PCIe 80 GB", 80_GiB, "gen4"},
    Card{"h100", "H100 PCIe 80 GB", 80_GiB, "gen5"},
    Card{"h200", "H200 NVL", 141_GiB, "gen5"},
};

// Pinned copies reach about four fifths of what the lanes carry: 12, 25 and 54 of 16, 32 and 64
// GB/s, as the bandwidth tests that come with CUDA measure them.
constexpr std::array<std::pair<std::string_view, double>, 6> kLinks = {
    {{"gen3", 12}, {"gen4", 25}, {"gen5", 54}, {"gen3x8", 6}, {"gen4x8", 12.5}, {"gen5x8", 27}}};

std::string plain(std::string_view name) {
  std::string text;
  for (const char c : name) {
    if (c == ' ' || c == '-' || c == '_') continue;
    text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return text;
}

}  // namespace

std::span<const Card> all_cards() { return kCards; }

const Card* find_card(std::string_view name) {
  const auto is_named = [&name](const Card& card) {
    return plain(card.name) == plain(name) || plain(card.title) == plain(name);
  };
  const auto* const found = std::find_if(kCards.begin(), kCards.end(), is_named);
  return found == kCards.end() ? nullptr : found;
}

std::optional<Bandwidth> link_named(std::string_view name) {
  for (const auto& [known, speed] : kLinks) {
    if (name == known) return Bandwidth{speed * 1e9};
  }
  double speed = 0;
  const auto read = std::from_chars(name.data(), name.data() + name.size(), speed);
  if (read.ec != std::errc() || read.ptr != name.data() + name.size()) return std::nullopt;
  if (!(speed >= 0.001 && speed <= 100'000)) return std::nullopt;
  return Bandwidth{speed * 1e9};
}

std::vector<std::string_view> link_names() {
  std::vector<std::string_view> names;
  names.reserve(kLinks.size());
  for (const auto& link : kLinks) names.push_back(link.first);
  return names;
}

}  // namespace superpipe::cli

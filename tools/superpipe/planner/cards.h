// Devices that users ask about: how much memory they have, and how fast their link is.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policy/timing_model.h"
#include "policy/units.h"

namespace superpipe::cli {

/// A device as it is sold.
struct Card {
  std::string_view name;  ///< as users write it, in small letters without spaces
  std::string_view title;
  Bytes memory;
  std::string_view link;  ///< as link_named() takes it
};

/// All cards that are known by name.
[[nodiscard]] std::span<const Card> all_cards();

/// The card of that name, whatever its case, spaces and hyphens; null: there is none.
[[nodiscard]] const Card* find_card(std::string_view name);

/// What a link carries each way between pinned host memory and the device: "gen3", "gen4" and
/// "gen5" are PCI Express with 16 lanes as measured in practice, "gen4x8" has half of it, and a
/// number is GB/s. @return nullopt for anything else.
[[nodiscard]] std::optional<Bandwidth> link_named(std::string_view name);

/// The names that link_named() knows.
[[nodiscard]] std::vector<std::string_view> link_names();

}  // namespace superpipe::cli

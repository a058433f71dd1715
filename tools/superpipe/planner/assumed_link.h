// Which link a prediction is for, and why.
#pragma once

#include <string>

#include "policy/timing_model.h"
#include "tools/superpipe/planner/traced_program.h"

namespace superpipe::cli {

/// What a link carries each way.
struct LinkSpeed {
  Bandwidth to_device{};
  Bandwidth to_host{};
};

/// What is assumed where neither a user nor a trace tells the link.
inline constexpr const char* kDefaultLink = "gen4";

/// The link that a prediction is for.
struct AssumedLink {
  /// Who said so.
  enum class Source { kUser, kCard, kTrace, kNobody };

  LinkSpeed speed;
  Source source = Source::kNobody;
  std::string name{};  ///< "gen5", "0.1 GB/s", "4.05 GB/s to the device and 4.02 GB/s back"

  /// The name, and where it is from: "gen4, because too little was moved in the traced run to tell
  /// its own".
  [[nodiscard]] std::string text() const;
};

/// The link that `asked` names, as link_named() takes it; if it is empty, the one that transfers in
/// the traced run told, where one direction stands for both if only one is known; else
/// kDefaultLink. REQUIRES: link_named(asked), or that it is empty.
[[nodiscard]] AssumedLink assumed_link(const std::string& asked, const TracedRun& run);

}  // namespace superpipe::cli

// What is different between two runs: what got slower, and where.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tools/superpipe/diff/compared_run.h"

namespace superpipe::cli {

/// A quantity in both runs.
struct ComparedQuantity {
  enum class Outcome : std::uint8_t {
    kMissing,  ///< one of the runs, or both, do not tell it, or they tell different things
    kSame,     ///< equal, or too small a difference to matter (kLeastStallShare)
    kNoise,    ///< different by less than passes differ within a run
    kBetter,
    kWorse,
    kChanged,  ///< different, and neither better nor worse
  };
  const QuantityKind* kind = nullptr;
  bool is_of_pass = false;  ///< else of the whole run
  std::optional<Measured> a;
  std::optional<Measured> b;
  /// What B has more, as a share of what A has; infinite where A has none. 0 if kMissing.
  double change = 0;
  Outcome outcome = Outcome::kMissing;
};

/// A kernel or a group in both runs; one of them is there at least.
struct KernelPair {
  std::optional<ComparedKernel> a;
  std::optional<ComparedKernel> b;

  [[nodiscard]] double more_stall_ms() const;
};
struct GroupPair {
  std::optional<ComparedGroup> a;
  std::optional<ComparedGroup> b;

  [[nodiscard]] double more_stall_ms() const;
  [[nodiscard]] double more_fetched_bytes() const;
};

/// Two runs, A before and B after, quantity by quantity and part by part.
struct RunComparison {
  ComparedRun a;
  ComparedRun b;
  std::vector<ComparedQuantity> quantities;  ///< those that one of the runs tells
  /// Whether kernels and groups are of a pass, in both runs.
  bool parts_are_of_pass = false;
  /// Times of passes are means up to the end of the last kernel, of both: the program of one of
  /// them was ahead of its device (ComparedPasses::is_ahead).
  bool pass_times_are_means = false;
  std::vector<KernelPair> kernels;  ///< those that B waits longer for first; as the next one
  std::vector<GroupPair> groups;
  std::vector<std::string> notes;  ///< what limits the comparison, a sentence each

  [[nodiscard]] const ComparedQuantity* find(Quantity quantity) const;
};

/// Differences of stalls that are a smaller share of a pass are none: a clock ticks so.
inline constexpr double kLeastStallShare = 0.001;
/// And of a whole run, in milliseconds, whose number of passes statistics do not tell.
inline constexpr double kLeastStallMsOfRun = 0.1;

/// Compares `a`, before, with `b`, after.
///
/// What both tell of their passes is compared by pass, times as medians of when the program
/// submitted them, or, where that says nothing of one of the runs, as means of both; else by run,
/// and if the runs have different numbers of launches, sums by launch. Kernels are the same that
/// have the same name. Layers are the same that have buffers of the same sizes, in the order in
/// which the program uses them; groups by call site are those of the same function. Pure.
/// O(layers^2).
/// @return why they cannot be compared: they are traces of programs that have no kernel in common,
/// or there is no quantity that both tell.
[[nodiscard]] std::variant<RunComparison, std::string> compare_runs(ComparedRun a, ComparedRun b);

/// How much worse a quantity may become: a share, such as 0.05.
struct GateLimit {
  Quantity quantity{};
  double share = 0;
};

/// Limits as the command line has them.
struct Gate {
  std::vector<GateLimit> limits;
  std::string problem;  ///< what is wrong with the words; empty: nothing is
};

/// Reads "5", "5%", or a list of "NAME=5%" with commas between them; a number without a name is for
/// the time of a pass. Pure.
[[nodiscard]] Gate parse_gate(const std::string& text);

/// A limit, and what there is to say about its being exceeded or unknown.
struct JudgedLimit : GateLimit {
  std::string reason;  ///< without a capital or a full stop; may be empty where it is exceeded
};

/// What a gate finds.
struct GateVerdict {
  std::vector<JudgedLimit> exceeded;
  std::vector<JudgedLimit> unknown;  ///< what the runs tell does not suffice to judge these
};

/// Limits of what is not told, or of what may be another figure than is told, are unknown, and so
/// are those that a difference within the spread of passes is above. Pure.
[[nodiscard]] GateVerdict judge(const RunComparison& comparison,
                                const std::vector<GateLimit>& limits);

/// The comparison as a table and sentences, for people. Pure.
[[nodiscard]] std::string comparison_text(const RunComparison& comparison,
                                          const std::vector<GateLimit>& limits);
/// The same as one JSON object, with a line break at its end (docs/diff.md). Pure.
[[nodiscard]] std::string comparison_json(const RunComparison& comparison,
                                          const std::vector<GateLimit>& limits);

}  // namespace superpipe::cli

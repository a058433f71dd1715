#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iomanip>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "policy/budget.h"
#include "tools/superpipe/diff/run_comparison.h"
#include "tools/superpipe/plain_text.h"

namespace superpipe::cli {
namespace {

using Outcome = ComparedQuantity::Outcome;
using Unit = QuantityKind::Unit;

// Rows of a list that are shown; JSON has all.
constexpr std::size_t kShownRows = 10;
constexpr std::size_t kShownNameLength = 48;
constexpr std::size_t kShownCommandLength = 120;
// Parts that a sentence names.
constexpr std::size_t kNamedParts = 3;
// Differences below this are not worth a row in a list, in milliseconds and bytes.
constexpr double kLeastShownMs = 0.0005;
// Changes below this are no cause of anything.
constexpr double kLeastToldChange = 0.02;

std::string fixed_text(double value, int digits) {
  // What a file says may be anything; a figure beyond is none that needs all its digits.
  constexpr double kMostFixed = 1e15;
  std::ostringstream text;
  text << (std::abs(value) < kMostFixed ? std::fixed : std::scientific) << std::setprecision(digits)
       << value;
  return text.str();
}

std::string time_text(double ms) {
  const double size = std::abs(ms);
  return fixed_text(ms, size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3) + " ms";
}

std::string bytes_text(double bytes) {
  constexpr double kMost = 9e18;
  return format_bytes(Bytes{static_cast<std::uint64_t>(std::min(bytes, kMost))});
}

std::string signed_text(double value, const std::string& text) {
  return (value < 0 ? "-" : "+") + text;
}

std::string value_text(Unit unit, double value) {
  switch (unit) {
    case Unit::kMilliseconds:
      return time_text(value);
    case Unit::kBytes:
      return bytes_text(value);
    case Unit::kGigabytesPerSecond:
      return fixed_text(value, 2) + " GB/s";
    case Unit::kCount:
      break;
  }
  return fixed_text(value, value == std::floor(value) ? 0 : 1);
}

// Of a larger share nobody needs the digits.
constexpr double kMostShown = 10;

std::string measured_text(const ComparedQuantity& one, const std::optional<Measured>& measured) {
  if (!measured) return "-";
  std::string text = value_text(one.kind->unit, measured->value);
  if (!measured->spread || measured->value == 0) return text;
  const double off =
      std::max(measured->spread->high - measured->value, measured->value - measured->spread->low) /
      measured->value * 100;
  if (off >= kMostShown * 100) return text + " +/- >999 %";
  if (off > 0) text += " +/- " + fixed_text(off, off < 10 ? 1 : 0) + " %";
  return text;
}

std::string change_text(double change) {
  if (std::isinf(change)) return "from 0";
  if (change >= kMostShown) return ">999 %";
  return signed_text(change, fixed_text(std::abs(change) * 100, 1) + " %");
}

std::string outcome_text(const ComparedQuantity& one) {
  switch (one.outcome) {
    case Outcome::kSame:
      return "same";
    case Outcome::kNoise:
      return "within the spread";
    case Outcome::kBetter:
      return "better";
    case Outcome::kWorse:
      return "worse";
    case Outcome::kChanged:
      return "changed";
    case Outcome::kMissing:
      break;
  }
  if (one.a && one.b) return "not comparable";
  return "not in " + std::string(one.a ? "B" : "A");
}

std::string shown_name(const std::string& name) { return shortened(name, kShownNameLength); }

/// Rows of cells, written with each column as wide as it has to be; the first one to the left.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> titles) { rows_.push_back(std::move(titles)); }
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

  void write(std::ostream& out) const {
    std::vector<std::size_t> widths;
    for (const auto& row : rows_) {
      widths.resize(std::max(widths.size(), row.size()));
      for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    for (const auto& row : rows_) {
      std::string line;
      for (std::size_t i = 0; i < row.size(); ++i) {
        const std::string room(widths[i] - row[i].size(), ' ');
        line += i == 0 ? row[i] + room : "  " + room + row[i];
      }
      out << line.substr(0, line.find_last_not_of(' ') + 1) << '\n';
    }
  }

 private:
  std::vector<std::vector<std::string>> rows_;
};

void write_run(std::ostream& out, const char* name, const ComparedRun& run) {
  out << name << ": " << plain_text(run.file);
  if (!run.command.empty()) out << ": " << shortened(run.command, kShownCommandLength);
  std::string facts;
  for (const std::string& fact : {run.policy.empty() ? "" : "policy " + run.policy, run.device}) {
    if (!fact.empty()) facts += (facts.empty() ? "" : ", ") + fact;
  }
  if (!facts.empty()) out << " (" << plain_text(facts) << ")";
  out << '\n';
}

std::string passes_text(const ComparedRun& run, const char* name) {
  const ComparedPasses& passes = *run.passes;
  return std::to_string(passes.first + 1) + " to " + std::to_string(passes.first + passes.count) +
         " of " + name;
}

void write_quantities(std::ostream& out, const RunComparison& comparison, bool of_pass) {
  TextTable table({of_pass ? "Of a pass, median" : "Of the run", "A", "B", "B against A", ""});
  bool has_rows = false;
  for (const ComparedQuantity& one : comparison.quantities) {
    if (one.is_of_pass != of_pass) continue;
    const double a = one.a ? one.a->value : 0;
    const double b = one.b ? one.b->value : 0;
    if (a == 0 && b == 0) continue;  // of what never happened a row says nothing
    has_rows = true;
    table.add(
        {"  " + std::string(one.kind->label), measured_text(one, one.a), measured_text(one, one.b),
         one.outcome == Outcome::kMissing ? "-" : change_text(one.change), outcome_text(one)});
  }
  if (!has_rows) return;
  out << '\n';
  table.write(out);
}

std::string parts_title(const RunComparison& comparison, const std::string& what) {
  return what + (comparison.parts_are_of_pass ? ", mean of a pass" : ", of the run");
}

void write_kernels(std::ostream& out, const RunComparison& comparison) {
  TextTable table(
      {parts_title(comparison, "Stalls by kernel"), "A", "B", "more", "launches A", "launches B"});
  std::size_t rows = 0;
  for (const KernelPair& pair : comparison.kernels) {
    const double a = pair.a ? pair.a->stall_ms : 0;
    const double b = pair.b ? pair.b->stall_ms : 0;
    if (std::max(a, b) < kLeastShownMs || ++rows > kShownRows) continue;
    const auto count = [](const auto& kernel) {
      return kernel ? value_text(Unit::kCount, kernel->launches) : std::string("-");
    };
    table.add({"  " + shown_name(pair.a ? pair.a->name : pair.b->name), time_text(a), time_text(b),
               signed_text(b - a, time_text(std::abs(b - a))), count(pair.a), count(pair.b)});
  }
  if (rows == 0) return;
  out << '\n';
  table.write(out);
  if (rows > kShownRows) out << "  and " << rows - kShownRows << " more; --json has all\n";
}

void write_kernel_times(std::ostream& out, const RunComparison& comparison) {
  std::vector<const KernelPair*> timed;
  for (const KernelPair& pair : comparison.kernels) {
    if (pair.a && pair.b && pair.a->device_us && pair.b->device_us) timed.push_back(&pair);
  }
  if (timed.empty()) return;
  const auto more = [](const KernelPair* pair) {
    return *pair->b->device_us * pair->b->launches - *pair->a->device_us * pair->a->launches;
  };
  std::stable_sort(timed.begin(), timed.end(),
                   [&](const KernelPair* x, const KernelPair* y) { return more(x) > more(y); });
  TextTable table({"Device time of a launch (mean)", "A", "B", "B against A"});
  for (std::size_t i = 0; i < std::min(timed.size(), kShownRows); ++i) {
    const double a = *timed[i]->a->device_us * 1e-3;
    const double b = *timed[i]->b->device_us * 1e-3;
    table.add({"  " + shown_name(timed[i]->a->name), time_text(a), time_text(b),
               a == 0 ? "-" : change_text((b - a) / a)});
  }
  out << '\n';
  table.write(out);
}

std::string group_name(const GroupPair& pair) {
  if (!pair.a) return shown_name(pair.b->name) + " (B only)";
  if (!pair.b) return shown_name(pair.a->name) + " (A only)";
  if (pair.a->name == pair.b->name) return shown_name(pair.a->name);
  return shown_name(pair.a->name) + " (B: " + shown_name(pair.b->name) + ")";
}

void write_groups(std::ostream& out, const RunComparison& comparison) {
  TextTable table(
      {parts_title(comparison, "Stalls by layer"), "A", "B", "more", "fetched A", "fetched B"});
  std::size_t rows = 0;
  for (const GroupPair& pair : comparison.groups) {
    const double a = pair.a ? pair.a->stall_ms : 0;
    const double b = pair.b ? pair.b->stall_ms : 0;
    const double fetched_a = pair.a ? pair.a->fetched_bytes : 0;
    const double fetched_b = pair.b ? pair.b->fetched_bytes : 0;
    const bool is_told = std::max(a, b) >= kLeastShownMs || fetched_a != fetched_b;
    if (!is_told || ++rows > kShownRows) continue;
    table.add({"  " + group_name(pair), time_text(a), time_text(b),
               signed_text(b - a, time_text(std::abs(b - a))), bytes_text(fetched_a),
               bytes_text(fetched_b)});
  }
  if (rows == 0) return;
  out << '\n';
  table.write(out);
  if (rows > kShownRows) out << "  and " << rows - kShownRows << " more; --json has all\n";
}

// The parts that add most to what B waits more, as "layer 3 (+2.00 ms), layer 4 (+1.00 ms)".
template <typename Pair, typename Name>
std::string most_of(const std::vector<Pair>& pairs, Name&& name_of) {
  std::string text;
  for (std::size_t i = 0; i < std::min(pairs.size(), kNamedParts); ++i) {
    const double more = pairs[i].more_stall_ms();
    if (more < kLeastShownMs) break;
    text += (text.empty() ? "" : ", ") + name_of(pairs[i]) + " (+" + time_text(more) + ")";
  }
  return text;
}

// What a change of the budget, of bytes that move and of the link's speed explains.
void write_what_moves(std::ostream& out, const RunComparison& comparison) {
  const auto changed = [&](Quantity quantity) -> const ComparedQuantity* {
    const ComparedQuantity* const one = comparison.find(quantity);
    const bool is_told = one != nullptr && one->outcome != Outcome::kMissing;
    return is_told && std::abs(one->change) > kLeastToldChange && one->outcome != Outcome::kNoise
               ? one
               : nullptr;
  };
  const auto side = [](const ComparedQuantity& one, const std::optional<Measured>& measured) {
    return value_text(one.kind->unit, measured->value);
  };
  if (const auto* const budget = changed(Quantity::kBudget)) {
    const auto text = [&](const std::optional<Measured>& measured) {
      return measured->value == 0 ? std::string("none") : side(*budget, measured);
    };
    out << "The budget of B is " << text(budget->b) << ", and that of A " << text(budget->a)
        << ".\n";
  }
  for (const Quantity quantity : {Quantity::kToDevice, Quantity::kToHost}) {
    const auto* const bytes = changed(quantity);
    if (bytes == nullptr || !bytes->is_of_pass) continue;
    out << "B moves " << side(*bytes, bytes->b) << " to the "
        << (quantity == Quantity::kToDevice ? "device" : "host") << " in a pass, and A "
        << side(*bytes, bytes->a) << ".\n";
  }
  for (const Quantity quantity : {Quantity::kLinkToDevice, Quantity::kLinkToHost}) {
    const auto* const link = changed(quantity);
    if (link == nullptr || link->outcome != Outcome::kWorse) continue;
    out << "The " << link->kind->label << " carries " << side(*link, link->b) << " in B, and "
        << side(*link, link->a) << " in A.\n";
  }
}

// For what calls of the program of B wait longer, as "1.00 ms longer for the device, 2.00 ms
// longer for copies"; empty: for nothing.
std::string longer_waits(const RunComparison& comparison) {
  std::string text;
  for (const auto& [quantity, place] :
       {std::pair(Quantity::kLaunchWait,
                  "in operations, for its buffers or for room in the stream"),
        std::pair(Quantity::kDeviceWait, "for the device"),
        std::pair(Quantity::kCopyWait, "for copies")}) {
    const ComparedQuantity* const wait = comparison.find(quantity);
    if (wait == nullptr || !wait->is_of_pass || wait->outcome != Outcome::kWorse) continue;
    text.append(text.empty() ? "" : ", ")
        .append(time_text(wait->b->value - wait->a->value))
        .append(" longer ")
        .append(place);
  }
  return text;
}

// What makes passes of B longer although its launches wait for transfers as long as those of A.
void write_other_causes(std::ostream& out, const RunComparison& comparison) {
  out << "Launches of B wait for transfers as long as those of A";
  const ComparedQuantity* const device = comparison.find(Quantity::kDeviceWait);
  if (device == nullptr || device->outcome == Outcome::kMissing) {
    out << ": what takes longer is the kernels, or the program itself.\n";
    return;
  }
  const std::string waits = longer_waits(comparison);
  if (waits.empty()) {
    out << ", and its program waits no longer either: what takes longer is the program itself.\n";
    return;
  }
  out << ", but its program waits " << waits << ".";
  if (device->outcome == Outcome::kWorse) {
    out << " What takes longer on the device is the kernels, or the program's own copies.";
  }
  out << '\n';
}

// Where B waits longer, or that it does not.
void write_causes(std::ostream& out, const RunComparison& comparison,
                  const ComparedQuantity& pass) {
  const ComparedQuantity* const stall = comparison.find(Quantity::kStallTime);
  if (stall == nullptr || !stall->is_of_pass) return;
  if (stall->outcome == Outcome::kWorse || stall->outcome == Outcome::kBetter) {
    const double waits = stall->b->value - stall->a->value;
    out << "Launches of B wait " << time_text(std::abs(waits)) << (waits > 0 ? " longer" : " less")
        << " for transfers.";
    const std::string groups = most_of(comparison.groups, group_name);
    const std::string kernels = most_of(comparison.kernels, [](const KernelPair& pair) {
      return shown_name(pair.a ? pair.a->name : pair.b->name);
    });
    if (waits > 0 && !groups.empty()) out << " Most for " << groups << ".";
    if (waits > 0 && !kernels.empty()) out << " In " << kernels << ".";
    const std::string calls = longer_waits(comparison);
    if (!calls.empty()) out << " Its program waits " << calls << ".";
    out << '\n';
  } else if (pass.outcome == Outcome::kWorse) {
    write_other_causes(out, comparison);
  }
  write_what_moves(out, comparison);
}

// What got slower, and why.
void write_conclusion(std::ostream& out, const RunComparison& comparison) {
  const ComparedQuantity* const pass = comparison.find(Quantity::kPassTime);
  if (pass == nullptr || pass->outcome == Outcome::kMissing) {
    out << "\nHow long passes take cannot be compared.\n";
    return;
  }
  const double more = pass->b->value - pass->a->value;
  if (pass->outcome == Outcome::kSame) {
    out << "\nA pass takes as long in B as in A.\n";
  } else if (pass->outcome == Outcome::kNoise) {
    out << "\nHow long a pass takes differs by less than passes within a run do ("
        << change_text(pass->change) << ").\n";
  } else {
    out << "\nB is " << (more > 0 ? "slower" : "faster") << ": a pass takes "
        << time_text(std::abs(more)) << (more > 0 ? " longer" : " less") << " ("
        << change_text(pass->change) << ").\n";
  }
  write_causes(out, comparison, *pass);
}

void write_verdict(std::ostream& out, const RunComparison& comparison,
                   const std::vector<GateLimit>& limits) {
  if (limits.empty()) return;
  out << '\n';
  const GateVerdict verdict = judge(comparison, limits);
  const auto found_in = [](const std::vector<JudgedLimit>& some, Quantity quantity) {
    const auto found = std::find_if(
        some.begin(), some.end(), [&](const JudgedLimit& one) { return one.quantity == quantity; });
    return found == some.end() ? nullptr : &*found;
  };
  for (const GateLimit& limit : limits) {
    const JudgedLimit* const exceeded = found_in(verdict.exceeded, limit.quantity);
    const JudgedLimit* const unknown = found_in(verdict.unknown, limit.quantity);
    out << (exceeded != nullptr  ? "FAILED "
            : unknown != nullptr ? "UNKNOWN "
                                 : "passed ")
        << kind_of(limit.quantity).name << ": ";
    const ComparedQuantity* const one = comparison.find(limit.quantity);
    if (one != nullptr && one->outcome != Outcome::kMissing) {
      out << change_text(one->change);
      if (exceeded == nullptr && unknown == nullptr && one->outcome == Outcome::kNoise) {
        out << ", which is within the spread";
      }
      if (unknown != nullptr) out << ", but ";
    }
    if (unknown != nullptr) out << unknown->reason;
    if (exceeded != nullptr && !exceeded->reason.empty()) out << ", " << exceeded->reason;
    out << "; at most +" << fixed_text(limit.share * 100, 1) << " % is allowed\n";
  }
}

}  // namespace

std::string comparison_text(const RunComparison& comparison, const std::vector<GateLimit>& limits) {
  std::ostringstream out;
  write_run(out, "A", comparison.a);
  write_run(out, "B", comparison.b);
  if (comparison.a.passes && comparison.b.passes) {
    out << "Compared: passes " << passes_text(comparison.a, "A") << " and "
        << passes_text(comparison.b, "B") << ".\n";
  }
  for (const std::string& note : comparison.notes) out << "Note: " << plain_text(note) << ".\n";
  write_quantities(out, comparison, true);
  write_quantities(out, comparison, false);
  write_groups(out, comparison);
  write_kernels(out, comparison);
  write_kernel_times(out, comparison);
  write_conclusion(out, comparison);
  write_verdict(out, comparison, limits);
  return out.str();
}

}  // namespace superpipe::cli

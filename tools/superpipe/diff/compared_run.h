// A run as it is compared with another: the figures of its trace, or of its statistics.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "profiler/trace_reader.h"
#include "tools/superpipe/diff/quantity.h"

namespace superpipe::cli {

/// A figure of each quantity that is known.
class Figures {
 public:
  void set(Quantity quantity, double value) { set(quantity, Measured{value, std::nullopt}); }
  void set(Quantity quantity, Measured measured) { at(quantity) = measured; }
  [[nodiscard]] const std::optional<Measured>& operator[](Quantity quantity) const {
    return figures_[static_cast<std::size_t>(quantity)];
  }

 private:
  std::optional<Measured>& at(Quantity quantity) {
    return figures_[static_cast<std::size_t>(quantity)];
  }

  std::array<std::optional<Measured>, kQuantities> figures_;
};

/// A kernel's part in a run. Figures are of a pass, or of the whole run where it has none.
struct ComparedKernel {
  std::string name;
  double launches = 0;
  double stall_ms = 0;
  double late_bytes = 0;            ///< of fetches that came during its stalls
  std::optional<double> device_us;  ///< of a launch, mean; nullopt: nobody took its time
};

/// The part of a layer, or of the buffers of a call site that are in none. As ComparedKernel.
struct ComparedGroup {
  std::string name;
  bool is_layer = false;
  std::string content;  ///< what identifies it from run to run: its buffers' sizes, or its name
  double bytes = 0;     ///< footprints of its buffers, at most at the same time
  double stall_ms = 0;
  double fetched_bytes = 0;
  double written_back_bytes = 0;
};

/// The passes of a run that are compared.
struct ComparedPasses {
  std::size_t first = 0;  ///< counted from 0
  std::size_t count = 0;
  std::size_t found = 0;  ///< in all
  double launches = 0;    ///< of a pass that name managed buffers, median
  /// From the beginning of the first pass that was found to the end of the last kernel, for each
  /// pass; to the trace's end where nobody took the times of kernels.
  double mean_ms = 0;
  /// The device worked on for so long after the last launch (kMostPassesAhead) that when the
  /// program submitted its passes says nothing about how long they took. Their mean does.
  bool is_ahead = false;
  /// `mean_ms` is up to the end of the last kernel; else up to that of the trace.
  bool ends_with_kernel = false;
  /// As long lies between the last launch and the end of the trace, and no kernel's time tells
  /// whether the device was busy then: passes may have taken longer than their times say.
  bool may_be_ahead = false;
  double tail_ms = 0;  ///< between the last launch and the end of the trace
};

struct ComparedRun {
  std::string file;
  bool is_trace = false;  ///< else statistics
  std::string version;    ///< of the library that wrote it; as the next three empty if not told
  std::string command;
  std::string device;
  std::string policy;
  std::optional<ComparedPasses> passes;
  std::string no_passes;  ///< why there are none; empty if there are
  Figures of_pass;
  Figures of_run;
  std::vector<ComparedKernel> kernels;
  std::vector<ComparedGroup> groups;
  double unexplained_stall_ms = 0;  ///< stalls for which no late bytes are known, as of a group
  bool is_complete = true;          ///< a trace: it has an end
  double events = 0;                ///< a trace: that were read

  /// How far the program may be ahead of the device, in passes, before their times say nothing.
  static constexpr double kMostPassesAhead = 2;
  /// A statistics file that is larger is none.
  static constexpr std::size_t kMostStatisticsBytes = std::size_t{4} << 20;
};

/// What is wrong with a file, in one line that names it.
using FileProblem = std::string;

/// Reads the file at `path`, a trace or statistics. Takes some microseconds for a thousand events,
/// and memory for the launches of a trace.
[[nodiscard]] std::variant<ComparedRun, FileProblem> read_compared_run(const std::string& path);

/// The same for statistics that were read; `name` is for messages. Pure.
[[nodiscard]] std::variant<ComparedRun, FileProblem> run_of_statistics(std::string_view text,
                                                                       const std::string& name);

/// The same for a trace, which is read twice: `open` opens it at its beginning.
[[nodiscard]] std::variant<ComparedRun, FileProblem> run_of_trace(
    const std::function<TraceResult<TraceReader>()>& open, const std::string& name);

}  // namespace superpipe::cli

// Whether runs of one program copied the same bytes out of the device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "policy/units.h"
#include "profiler/copy_records.h"

namespace superpipe::cli {

/// The copies of each process of a run, in the order in which the processes began to copy.
using RunCopies = std::vector<ProcessCopies>;

/// The first copy that is not what it was without superpipe.
struct CopyDifference {
  enum class Kind {
    kContent,     ///< other bytes
    kSize,        ///< another number of bytes
    kMissing,     ///< there is no such copy
    kAdditional,  ///< there was no such copy without superpipe
  };
  Kind kind{};
  std::size_t process = 0;  ///< from 0
  CopyRecord copy{};        ///< as it was without superpipe; kAdditional: as it is
  std::string kernel{};  ///< the name of the kernel of its source's last launch; empty: not known
  /// Where the program asked for it, innermost first, as ProcessCopies has it; empty: not known.
  std::vector<std::string> frames{};
};

/// What came of comparing a run.
struct CopyComparison {
  std::uint64_t compared = 0;   ///< copies of which size and content were compared
  Bytes bytes{};                ///< in them
  std::uint64_t differing = 0;  ///< copies that differ, are missing, or are additional
  std::optional<CopyDifference> first{};
};

/// A copy whose content cannot be judged, because it is another in each run or because a graph
/// makes it.
struct NotJudged {
  std::size_t process = 0;  ///< from 0
  CopyRecord copy{};
};

/// What a program copies out without superpipe, as far as two runs of it agree.
///
/// Copies are told apart by their process, their thread and their number in it. Processes of two
/// runs are taken to be the same if they have the same place (ProcessCopies::place), in the order
/// in which they began to copy where several have it; the others, if that order is the same. Where
/// the runs agree in number and size of all copies, each is compared with that of its place, but
/// for those whose content is another in the second run. A process whose threads or copies come in
/// another order, or of which others are made, in the second run is compared without order: what
/// both runs have must be there. So is one in which several threads copy, where a run has the same
/// copies in another order.
class CopyBaseline {
 public:
  CopyBaseline(const RunCopies& first, const RunCopies& second);

  /// Compares a run with it.
  [[nodiscard]] CopyComparison compare(const RunCopies& run) const;

  /// Copies of the first run, and the bytes in them.
  [[nodiscard]] std::uint64_t copies() const;
  [[nodiscard]] Bytes bytes() const;
  /// Those whose content changes from run to run without superpipe, so that it is not compared.
  [[nodiscard]] std::uint64_t varying() const;
  /// Those whose content nobody saw: they are made by graphs.
  [[nodiscard]] std::uint64_t unseen() const;
  /// The bytes in those whose content is compared: all but the varying and the unseen ones.
  [[nodiscard]] Bytes judged_bytes() const;
  /// At most `most` of the others, the largest first.
  [[nodiscard]] std::vector<NotJudged> largest_not_judged(std::size_t most) const;
  /// Whether some process's copies come in another order from run to run.
  [[nodiscard]] bool is_unordered() const;

 private:
  struct Process {
    ProcessCopies copies;
    std::vector<bool> varies;  ///< by copy: its content is not compared
    bool ordered = true;

    [[nodiscard]] bool judges(std::size_t copy) const {
      return !varies[copy] && copies.copies[copy].digest.has_value();
    }
  };

  [[nodiscard]] CopyComparison compare_process(std::size_t index, const ProcessCopies& run) const;
  void compare_in_order(std::size_t index, const ProcessCopies& run, CopyComparison& into) const;
  void compare_as_set(std::size_t index, const ProcessCopies& run, CopyComparison& into) const;
  /// `of`: the copies of the process that made `copy`.
  static void note(std::size_t process, CopyDifference::Kind kind, const CopyRecord& copy,
                   const ProcessCopies& of, CopyComparison& into);

  /// The processes of `run`: each at the place that the same one has here, and then the others.
  /// Where there is none for one that is here, nullptr.
  [[nodiscard]] std::vector<const ProcessCopies*> paired(const RunCopies& run) const;

  std::vector<Process> processes_;
};

}  // namespace superpipe::cli

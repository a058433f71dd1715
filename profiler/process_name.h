// What tells the processes of one run apart: in the names of their files, and in what they print.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "settings/setting_values.h"

namespace superpipe {

/// A process and, of a job whose launcher numbers its processes, its rank.
struct ProcessName {
  int id = 0;
  std::optional<std::uint64_t> rank{};
  /// Whether the run has other processes too, as far as this one can tell: it has a rank in a job
  /// that is not known to be of one process, or another process began the run.
  bool is_one_of_several = false;

  /// "rank 1, process 4711", or without a rank "process 4711".
  [[nodiscard]] std::string text() const;
};

/// The environment variable with the id of the process that began a run: the first one that the
/// library was loaded into.
inline constexpr const char* kRunRootVariable = "SUPERPIPE_RUN_ROOT";
/// The environment variable with the name of the run's mark, which a process leaves that has opened
/// the driver (interposer/driver_of_run.h).
inline constexpr const char* kDriverMarkVariable = "SUPERPIPE_DRIVER_MARK";

/// The name of the process `id` with `environment`.
///
/// Its rank is the first of these that is a number: RANK (torchrun), OMPI_COMM_WORLD_RANK (Open
/// MPI), PMI_RANK (MPICH, Intel MPI), SLURM_PROCID, and where there is none of the whole job, that
/// on its host: LOCAL_RANK, OMPI_COMM_WORLD_LOCAL_RANK. Throws std::bad_alloc.
[[nodiscard]] ProcessName process_name(int id, const Environment& environment);

/// `pattern` with the process's id in place of each %p, its rank (0 without one) in place of each
/// %r, and % in place of each %%. What else follows a % stays. Throws std::bad_alloc.
[[nodiscard]] std::string file_name_of(const std::string& pattern, const ProcessName& process);

/// Whether processes make different names of `pattern`: it has %p or %r.
[[nodiscard]] bool names_each_process(const std::string& pattern);

}  // namespace superpipe

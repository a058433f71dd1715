// The runs that verify compares: starts a program, and reads what it left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "policy/units.h"
#include "tools/superpipe/child_run.h"
#include "tools/superpipe/copy_comparison.h"
#include "tools/superpipe/run_environment.h"
#include "tools/superpipe/run_options.h"
#include "tools/superpipe/run_preparation.h"

namespace superpipe::cli {

/// A folder for the files of all runs, removed with all that is in it.
class TemporaryFolder {
 public:
  /// Throws std::system_error.
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// What one run left.
struct VerifyRun {
  std::string name;  ///< "without superpipe", "with --gpu-mem 3G"
  ChildEnd end{};
  std::vector<std::string> output{};  ///< lines
  std::vector<std::string> errors{};  ///< lines of standard error
  RunCopies copies{};
  nlohmann::json statistics{};  ///< superpipe's own; empty where it wrote none

  [[nodiscard]] std::uint64_t copied() const {
    std::uint64_t sum = 0;
    for (const ProcessCopies& process : copies) sum += process.copies.size();
    return sum;
  }
  [[nodiscard]] Bytes statistic(const char* key) const {
    return Bytes{statistics.is_object() ? statistics.value(key, std::uint64_t{0}) : 0};
  }
};

/// Whoever sits at the terminal wants an end: the program was killed from there.
class Interrupted : public std::exception {
 public:
  explicit Interrupted(int signal) : signal_(signal) {}
  [[nodiscard]] int signal() const { return signal_; }

 private:
  int signal_;
};

/// Starts the runs, one after the other, each with files of its own, and says so on standard error.
/// Not thread-safe.
class VerifyRunner {
 public:
  /// `options` and `ready` must outlive it. `runs`: how many there will be; the last of them may be
  /// left out if `may_be_less`. Throws std::system_error if there is no folder to be had for files.
  VerifyRunner(const RunOptions& options, const RunPreparation& ready, std::size_t runs,
               bool may_be_less)
      : options_(options), ready_(ready), runs_(runs), may_be_less_(may_be_less) {}

  // Each returns when the program has ended. Throws Interrupted; std::runtime_error: what the run
  // left cannot be read.

  VerifyRun without_superpipe();
  /// A run that was not planned: the `number`th of at most `most`.
  VerifyRun once_more_without_superpipe(std::size_t number, std::size_t most);
  /// With `budget`, or as the options say. `name`: VerifyRun::name. `which`: what is said of its
  /// number; empty: it is the next of those that there will be.
  VerifyRun with_superpipe(std::optional<Bytes> budget, const std::string& name,
                           const std::string& which = {});
  /// With `budget` as the user wrote it.
  VerifyRun with_superpipe(const std::string& budget);

 private:
  using FileTime = std::filesystem::file_time_type;

  [[nodiscard]] std::vector<EnvironmentChange> changes_without_superpipe() const;
  VerifyRun run(const std::string& name, std::vector<EnvironmentChange> changes, std::string which);
  [[nodiscard]] std::optional<FileTime> time_of_own_statistics() const;
  void read_files(const std::filesystem::path& folder, VerifyRun& run,
                  std::optional<FileTime> former) const;

  const RunOptions& options_;
  const RunPreparation& ready_;
  std::size_t runs_;
  bool may_be_less_;
  TemporaryFolder folder_;
  std::size_t number_ = 0;
};

}  // namespace superpipe::cli

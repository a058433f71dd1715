#include "tools/superpipe/verify_runs.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <variant>

#include "settings/settings.h"

namespace superpipe::cli {
namespace {

using nlohmann::json;

std::vector<std::string> lines_of(const std::filesystem::path& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

json statistics_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return json::parse(file, nullptr, false);
}

/// The statistics of the process that launched most, of all that wrote some into `folder`.
json statistics_in(const std::filesystem::path& folder) {
  json most = json::value_t::discarded;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename().string().rfind("statistics", 0) != 0) continue;
    json one = statistics_of(entry.path());
    const auto launches = [](const json& of) { return of.value("launches", std::uint64_t{0}); };
    if (!one.is_object()) continue;
    if (!most.is_object() || launches(one) > launches(most)) most = std::move(one);
  }
  return most;
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "superpipe-verify-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    throw std::system_error(errno, std::generic_category(), name);
  }
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

VerifyRun VerifyRunner::without_superpipe() {
  return run("without superpipe", changes_without_superpipe(), {});
}

VerifyRun VerifyRunner::once_more_without_superpipe(std::size_t number, std::size_t most) {
  return run("without superpipe", changes_without_superpipe(),
             "run " + std::to_string(number) + " of at most " + std::to_string(most) +
                 " more, to see whether lines of output vary");
}

VerifyRun VerifyRunner::with_superpipe(std::optional<Bytes> budget, const std::string& name,
                                       const std::string& which) {
  RunOptions options = options_;
  if (budget) options.flag(SettingId::kGpuMem) = std::to_string(budget->count());
  return run(name, environment_changes(options, ready_.parts, ready_.program), which);
}

VerifyRun VerifyRunner::with_superpipe(const std::string& budget) {
  RunOptions options = options_;
  options.flag(SettingId::kGpuMem) = budget;
  return run("with --gpu-mem " + budget, environment_changes(options, ready_.parts, ready_.program),
             {});
}

std::vector<EnvironmentChange> VerifyRunner::changes_without_superpipe() const {
  auto changes = environment_changes(options_, ready_.parts, ready_.program);
  changes.push_back({variable_of(SettingId::kOff), "1"});
  return changes;
}

VerifyRun VerifyRunner::run(const std::string& name, std::vector<EnvironmentChange> changes,
                            std::string which) {
  ++number_;
  const std::filesystem::path folder = folder_.path() / std::to_string(number_);
  std::filesystem::create_directory(folder);
  changes.push_back({variable_of(SettingId::kCopies), folder / "copies"});
  if (options_.flag(SettingId::kStats).empty()) {
    changes.push_back({variable_of(SettingId::kStats), folder / "statistics"});
  }
  if (which.empty()) {
    which = "run " + std::to_string(number_) + " of " +
            (may_be_less_ && number_ < runs_ ? "at most " : "") + std::to_string(runs_);
  }
  std::cerr << "superpipe verify: " << which << ", " << name << " ..." << std::flush;
  VerifyRun run{name};
  const auto former = time_of_own_statistics();
  run.end = run_child(options_.command, changes, folder / "output", folder / "errors");
  run.output = lines_of(folder / "output");
  run.errors = lines_of(folder / "errors");
  read_files(folder, run, former);
  std::cerr << ' ' << std::fixed << std::setprecision(1) << run.end.seconds << " s, "
            << run.end.text() << ", " << run.copied() << " copies out\n";
  std::error_code still_used;  // a process that the program left behind may write there
  std::filesystem::remove_all(folder, still_used);
  if (run.end.signal == SIGINT || run.end.signal == SIGQUIT) throw Interrupted(run.end.signal);
  return run;
}

// When the file was written that the user has named for statistics; nullopt: there is none.
std::optional<VerifyRunner::FileTime> VerifyRunner::time_of_own_statistics() const {
  std::error_code none;
  const auto time = std::filesystem::last_write_time(options_.flag(SettingId::kStats), none);
  return none ? std::nullopt : std::optional(time);
}

// `former`: time_of_own_statistics() before the run, which may not have written them.
void VerifyRunner::read_files(const std::filesystem::path& folder, VerifyRun& run,
                              std::optional<FileTime> former) const {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename().string().rfind("copies.", 0) != 0) continue;
    auto read = read_copies(entry.path());
    if (auto* const problem = std::get_if<std::string>(&read)) throw std::runtime_error(*problem);
    run.copies.push_back(std::get<ProcessCopies>(std::move(read)));
  }
  std::sort(run.copies.begin(), run.copies.end(),
            [](const ProcessCopies& a, const ProcessCopies& b) { return a.started < b.started; });
  const std::string& own = options_.flag(SettingId::kStats);
  if (!own.empty() && time_of_own_statistics() == former) return;
  run.statistics = own.empty() ? statistics_in(folder) : statistics_of(own);
}

}  // namespace superpipe::cli

#include "interposer/reports/exit_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

namespace superpipe {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

/// A folder of the test's own for the reports, removed at its end.
class WriteReports : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    figures_.residency.launches = 7;
    figures_.residency.learned.layer_bytes = {2_MiB};
    figures_.residency.timeline = {{{}, TimelineEvent::Kind::kLaunch, BufferId{3}, 2_MiB}};
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// What writing the reports prints on standard error.
  [[nodiscard]] std::string printed() const {
    ::testing::internal::CaptureStderr();
    write_reports(figures_, configuration_, process_);
    return ::testing::internal::GetCapturedStderr();
  }
  static std::string content_of(const std::string& path) {
    std::ostringstream content;
    content << std::ifstream(path).rdbuf();
    return content.str();
  }

  const std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) / ("write_reports." + std::to_string(::getpid()));
  RunFigures figures_;
  Configuration configuration_;
  ProcessName process_;
};

TEST_F(WriteReports, WritesNothingUnlessAsked) {
  EXPECT_THAT(printed(), IsEmpty());
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(WriteReports, WritesTheFilesThatTheSettingsName) {
  configuration_.stats_file = folder_ / "stats.json";
  configuration_.timeline_file = folder_ / "timeline.csv";
  EXPECT_THAT(printed(), IsEmpty());
  const auto json = nlohmann::json::parse(content_of(configuration_.stats_file));
  EXPECT_EQ(json["launches"], 7);
  EXPECT_EQ(json["version"], SUPERPIPE_VERSION);
  EXPECT_EQ(content_of(configuration_.timeline_file),
            "time_ms,event,buffer,layer,bytes\n0.0000,launch,3,,2097152\n");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 2);
}

TEST_F(WriteReports, PrintsTheSummary) {
  configuration_.summary = true;
  EXPECT_THAT(printed(), StartsWith("superpipe: policy resident"));
}

TEST_F(WriteReports, NamesTheProcessInEachLineWhereThereAreSeveral) {
  configuration_.summary = true;
  process_ = {4711, 1, true};
  std::istringstream lines(printed());
  for (std::string line; std::getline(lines, line);) {
    EXPECT_THAT(line, StartsWith("superpipe: rank 1, process 4711: "));
  }
}

TEST_F(WriteReports, NamesTheSettingWhoseFileCannotBeWritten) {
  configuration_.stats_file = folder_ / "missing" / "stats.json";
  configuration_.timeline_file = folder_ / "timeline.csv";
  EXPECT_THAT(printed(),
              HasSubstr("superpipe: SUPERPIPE_STATS: cannot write " + configuration_.stats_file));
  EXPECT_TRUE(std::filesystem::exists(configuration_.timeline_file));
}

}  // namespace
}  // namespace superpipe

// Opening CUPTI's library: what is said where it cannot be had.
#include "interposer/cupti/cupti_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace superpipe {
namespace {

using ::testing::HasSubstr;

std::string problem_with(const char* file) {
  const auto opened = open_cupti({{file}});
  const auto* const problem = std::get_if<std::string>(&opened);
  return problem != nullptr ? *problem : "";
}

TEST(OpenCupti, SaysWhereTheLibraryCanBeHad) {
  const std::string problem = problem_with("/nonexistent/libcupti.so.13");
  EXPECT_THAT(problem, HasSubstr("libcupti.so.13 cannot be opened"));
  EXPECT_THAT(problem, HasSubstr("LD_LIBRARY_PATH"));
}

TEST(OpenCupti, TakesTheFirstThatThereIs) {
  const auto opened = open_cupti({{"/nonexistent/libcupti.so.13", FAKE_CUPTI, FAKE_CUPTI_OLD}});
  const auto* const api = std::get_if<CuptiApi>(&opened);
  ASSERT_NE(api, nullptr) << std::get<std::string>(opened);
  std::uint32_t version = 0;
  EXPECT_EQ(api->cuptiGetVersion(&version), CUPTI_SUCCESS);
  EXPECT_EQ(version, CUPTI_API_VERSION);
}

TEST(OpenCupti, NamesAFunctionThatIsMissing) {
  EXPECT_EQ(problem_with(FAKE_CUPTI_WITHOUT),
            "libcupti.so.13 has no cuptiActivityGetNumDroppedRecords");
}

TEST(OpenCupti, RefusesAnotherMajorVersion) {
  EXPECT_EQ(problem_with(FAKE_CUPTI_OLD),
            "libcupti.so.13 is of version 28, and superpipe knows those of CUDA 13");
}

}  // namespace
}  // namespace superpipe

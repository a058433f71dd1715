// docs/trace-format.md is what the code writes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "profiler/trace_chunk.h"
#include "profiler/trace_codec.h"
#include "profiler/trace_event.h"

namespace superpipe {
namespace {

TEST(TraceDocument, ListsEachTypeWithItsFields) {
  std::ifstream in(SUPERPIPE_TRACE_DOCUMENT);
  const std::string document{std::istreambuf_iterator<char>(in), {}};
  ASSERT_FALSE(document.empty());
  std::size_t types = 0;
  for_each_trace_type([&]<typename Event>() {
    ++types;
    const std::string row = "| " + std::to_string(Event::kType) + " | " +
                            std::string(Event::kName) + " | " + trace_fields_text<Event>() + " |\n";
    EXPECT_NE(document.find(row), std::string::npos) << "there is no line\n" << row;
  });
  // No line more: those of the table of types have three columns, of which the first is a number.
  std::size_t rows = 0;
  const std::size_t table = document.find("## Types");
  for (std::size_t at = table; (at = document.find("\n| ", at)) != std::string::npos; ++at) {
    rows += std::isdigit(static_cast<unsigned char>(document[at + 3])) != 0 ? 1 : 0;
  }
  EXPECT_EQ(rows, types);
  EXPECT_NE(document.find("version " + std::to_string(kTraceVersion.major) + "." +
                          std::to_string(kTraceVersion.minor) + ", for those"),
            std::string::npos);
  EXPECT_NE(document.find("| major version: " + std::to_string(kTraceVersion.major) + " |"),
            std::string::npos);
  EXPECT_NE(document.find("| minor version: " + std::to_string(kTraceVersion.minor) + " |"),
            std::string::npos);
}

}  // namespace
}  // namespace superpipe

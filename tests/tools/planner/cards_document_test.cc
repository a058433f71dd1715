// docs/cards.md has the cards and links that plans know, each card with its source.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "policy/budget.h"
#include "tools/superpipe/planner/cards.h"

namespace superpipe::cli {
namespace {

std::string document() {
  std::ifstream in(SUPERPIPE_CARDS_DOCUMENT);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Rows of tables with so many columns, but their titles and rules.
std::size_t rows_of(const std::string& text, std::ptrdiff_t columns) {
  std::istringstream lines(text);
  std::size_t rows = 0;
  for (std::string line; std::getline(lines, line);) {
    rows += line.starts_with("| ") && std::count(line.begin(), line.end(), '|') == columns + 1;
  }
  return rows - 1;
}

TEST(CardsDocument, HasEachCardWithItsSource) {
  const std::string text = document();
  for (const Card& card : all_cards()) {
    std::ostringstream row;
    row << "\n| " << card.name << " | " << card.title << " | " << format_bytes(card.memory) << " | "
        << card.link << " | ";
    const std::size_t place = text.find(row.str());
    ASSERT_NE(place, std::string::npos) << "there is no line" << row.str();
    const std::string source = text.substr(place + row.str().size(), 20);
    EXPECT_THAT(source, ::testing::ContainsRegex("^(Data sheet|White paper|Product page) \""))
        << row.str();
  }
  EXPECT_EQ(rows_of(text, 5), all_cards().size());
}

TEST(CardsDocument, HasEachLinkWithItsSpeed) {
  const std::string text = document();
  for (const std::string_view name : link_names()) {
    std::ostringstream row;
    row << "\n| " << name << " | " << link_named(name)->bytes_per_second / 1e9 << " |\n";
    EXPECT_NE(text.find(row.str()), std::string::npos) << "there is no line" << row.str();
  }
  EXPECT_EQ(rows_of(text, 2), link_names().size());
}

}  // namespace
}  // namespace superpipe::cli

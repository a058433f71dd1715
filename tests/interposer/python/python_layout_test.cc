// What is known of interpreters, by their version and the table that later ones have.
#include "interposer/python/python_layout.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

namespace superpipe {
namespace {

using Runtime = std::array<std::uint64_t, kPythonRuntimeWords>;

/// A `_PyRuntime` that begins with the table: each word that is no fixed one is its own place.
Runtime runtime_of(std::uint32_t hex, std::size_t object) {
  Runtime words{};
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = i;
  std::memcpy(words.data(), "xdebugpy", 8);
  words[1] = hex;
  words[2] = 0;
  words[object] = 16;
  return words;
}

TEST(PythonLayout, IsFixedForVersionsWithoutATable) {
  const auto of_3_11 = python_layout(0x030B07F0, {});
  ASSERT_TRUE(of_3_11);
  EXPECT_EQ(of_3_11->owner, PythonLayout::Owner::kIsOutermost);
  const auto of_3_12 = python_layout(0x030C00F0, {});
  ASSERT_TRUE(of_3_12);
  EXPECT_EQ(of_3_12->owner, PythonLayout::Owner::kIsWho);
  EXPECT_EQ(of_3_12->cframe_frame, 0u);
}

TEST(PythonLayout, IsReadFromTheTable) {
  const auto of_3_13 = python_layout(0x030D01F0, runtime_of(0x030D01F0, 44));
  ASSERT_TRUE(of_3_13);
  EXPECT_EQ(of_3_13->thread_frame, 23u);
  EXPECT_EQ(of_3_13->cframe_frame, std::nullopt);
  EXPECT_EQ(of_3_13->frame_previous, 29u);
  EXPECT_EQ(of_3_13->frame_code, 30u);
  EXPECT_EQ(of_3_13->frame_instruction, 31u);
  EXPECT_EQ(of_3_13->frame_owner, 33u);
  EXPECT_EQ(of_3_13->code_file, 35u);
  EXPECT_EQ(of_3_13->code_name, 37u);
  EXPECT_EQ(of_3_13->code_instructions, 43u);
  EXPECT_EQ(of_3_13->object_type, 45u);
  const auto of_3_14 = python_layout(0x030E00F0, runtime_of(0x030E00F0, 50));
  ASSERT_TRUE(of_3_14);
  EXPECT_EQ(of_3_14->thread_frame, 26u);
  EXPECT_EQ(of_3_14->frame_owner, 36u);
  EXPECT_EQ(of_3_14->code_instructions, 48u);
}

TEST(PythonLayout, IsNotKnownOfOtherInterpreters) {
  constexpr std::uint32_t kHex = 0x030D01F0;
  const Runtime good = runtime_of(kHex, 44);
  EXPECT_FALSE(python_layout(0x030A00F0, good));  // 3.10
  EXPECT_FALSE(python_layout(0x030F00F0, good));  // 3.15
  EXPECT_FALSE(python_layout(0x030D02F0, good));  // the table is of another version
  EXPECT_FALSE(python_layout(kHex, std::span(good).first(20)));
  Runtime bad = good;
  bad[0] = 0;  // no table
  EXPECT_FALSE(python_layout(kHex, bad));
  bad = good;
  bad[2] = 1;  // without the global lock
  EXPECT_FALSE(python_layout(kHex, bad));
  bad = good;
  bad[44] = 32;  // the groups lie elsewhere
  EXPECT_FALSE(python_layout(kHex, bad));
  bad = good;
  bad[30] = 1u << 20;  // no offset within a frame
  EXPECT_FALSE(python_layout(kHex, bad));
}

}  // namespace
}  // namespace superpipe

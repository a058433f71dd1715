// Buffers and the ids that name them.
#include "residency/pieces/buffer_table.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace superpipe::testing {
namespace {

TEST(BufferTable, ReusesIdsAndCountsTheirLives) {
  BufferTable table;
  std::vector<BufferId> ids;
  for (int i = 0; i < 600; ++i) ids.push_back(*table.create());
  EXPECT_EQ(table.end(), 600U);
  Buffer* const buffer = &table[ids[599]];
  const std::uint64_t generation = buffer->generation;
  buffer->cut(8_KiB, 4_KiB);
  buffer->note_write();
  table.destroy(ids[599]);
  EXPECT_EQ(table.create(), ids[599]);
  EXPECT_EQ(&table[ids[599]], buffer);
  EXPECT_TRUE(buffer->pieces.empty());
  EXPECT_TRUE(buffer->fresh);
  EXPECT_GT(buffer->generation, generation);
}

}  // namespace
}  // namespace superpipe::testing

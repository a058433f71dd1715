// Which buffer is to be fetched next.
#include "residency/pieces/fetch_queue.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace superpipe::testing {
namespace {

WantedPiece piece(std::uint32_t id, std::uint64_t generation = 0) {
  return {BufferId{id}, 0, generation};
}

/// The ids in the order in which the queue gives them; the queue is empty afterwards.
std::vector<std::uint32_t> take_all(FetchQueue& queue) {
  std::vector<std::uint32_t> ids;
  while (const auto entry = queue.at(0)) {
    ids.push_back(index_of(entry->piece.id));
    queue.erase(0);
  }
  return ids;
}

TEST(FetchQueue, GivesDemandsBeforePrefetches) {
  FetchQueue queue;
  queue.push(Want::kPrefetch, piece(1));
  queue.push(Want::kDemand, piece(2));
  queue.push(Want::kPrefetch, piece(3));
  queue.push(Want::kDemand, piece(4));
  EXPECT_EQ(take_all(queue), (std::vector<std::uint32_t>{2, 4, 1, 3}));
}

TEST(FetchQueue, SaysForWhatTheFirstBufferIsWanted) {
  FetchQueue queue;
  queue.push(Want::kPrefetch, piece(1, 10));
  ASSERT_TRUE(queue.at(0));
  EXPECT_EQ(queue.at(0)->want, Want::kPrefetch);
  EXPECT_EQ(queue.at(0)->piece.generation, 10U);
  queue.push(Want::kDemand, piece(2, 20));
  EXPECT_EQ(queue.at(0)->want, Want::kDemand);
  EXPECT_EQ(queue.at(0)->piece.generation, 20U);
}

TEST(FetchQueue, KeepsAnEntryUntilItIsTakenOut) {
  FetchQueue queue;
  EXPECT_TRUE(queue.empty());
  EXPECT_FALSE(queue.at(0));
  queue.push(Want::kPrefetch, piece(1));
  EXPECT_TRUE(queue.at(0));
  EXPECT_TRUE(queue.at(0)) << "to look at the first entry changes nothing";
  EXPECT_FALSE(queue.empty());
  queue.erase(0);
  EXPECT_TRUE(queue.empty());
  EXPECT_FALSE(queue.at(0));
}

TEST(FetchQueue, GivesBackItsPrefetchesAndKeepsItsDemands) {
  FetchQueue queue;
  queue.push(Want::kPrefetch, piece(1, 10));
  queue.push(Want::kDemand, piece(2));
  queue.push(Want::kPrefetch, piece(3));
  const auto first = queue.take_prefetch();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->id, BufferId{1});
  EXPECT_EQ(first->generation, 10U);
  EXPECT_EQ(queue.take_prefetch().value_or(piece(9)).id, BufferId{3});
  EXPECT_FALSE(queue.take_prefetch());
  EXPECT_EQ(take_all(queue), std::vector<std::uint32_t>{2});
}

TEST(FetchQueue, CountsDemandsAndThenPrefetches) {
  FetchQueue queue;
  queue.push(Want::kPrefetch, piece(1));
  queue.push(Want::kDemand, piece(2));
  queue.push(Want::kPrefetch, piece(3));
  queue.push(Want::kDemand, piece(4));
  const auto id_at = [&queue](std::size_t place) { return queue.at(place)->piece.id; };
  EXPECT_EQ(id_at(1), BufferId{4});
  EXPECT_EQ(id_at(2), BufferId{1});
  EXPECT_EQ(id_at(3), BufferId{3});
  EXPECT_FALSE(queue.at(4));
  queue.erase(1);
  queue.erase(1);
  EXPECT_EQ(take_all(queue), (std::vector<std::uint32_t>{2, 3}));
}

TEST(FetchQueue, KeepsEveryLifeOfAnIdApart) {
  FetchQueue queue;
  queue.push(Want::kDemand, piece(7, 1));
  queue.push(Want::kDemand, piece(7, 2));
  EXPECT_EQ(queue.at(0)->piece.generation, 1U) << "void entries stay until they are taken out";
  queue.erase(0);
  EXPECT_EQ(queue.at(0)->piece.generation, 2U);
}

TEST(FetchQueue, IsEmptyOnceCleared) {
  FetchQueue queue;
  queue.push(Want::kPrefetch, piece(1));
  queue.push(Want::kDemand, piece(2));
  queue.clear();
  EXPECT_TRUE(queue.empty());
  EXPECT_FALSE(queue.at(0));
}

}  // namespace
}  // namespace superpipe::testing

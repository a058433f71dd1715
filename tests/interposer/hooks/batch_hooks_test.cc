// What of a batch of copies goes to the driver.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tests/interposer/managed_fixture.h"

namespace superpipe {
namespace {

/// A batch as it came to the driver.
struct SeenBatch {
  std::vector<CUdeviceptr> to;
  std::vector<CUdeviceptr> from;
  std::vector<std::size_t> sizes;
  std::vector<unsigned> flags;  ///< one for each copy, of its attributes
};
std::vector<SeenBatch> seen_batches;
std::size_t refused_size = 0;
constexpr std::size_t kNone = SIZE_MAX;

/// What the driver says of the host memory that is copied, and the host functions it was given.
bool host_is_pinned = false;
std::vector<std::pair<CUhostFn, void*>> host_functions;

class BatchHooksTest : public testing::BudgetFixture {
 protected:
  /// Two such do not fit within the budget beside each other.
  static constexpr std::size_t kManyCopies = 24;

  void SetUp() override {
    BudgetFixture::SetUp();
    seen_batches.clear();
    refused_size = 0;
    host_is_pinned = false;
    host_functions.clear();
    driver().cuPointerGetAttribute = [](void* answer, CUpointer_attribute, CUdeviceptr) {
      *static_cast<unsigned*>(answer) = CU_MEMORYTYPE_HOST;
      return host_is_pinned ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    };
    driver().cuStreamQuery = [](CUstream) { return CUDA_ERROR_NOT_READY; };
    driver().cuLaunchHostFunc = [](CUstream, CUhostFn function, void* data) {
      host_functions.emplace_back(function, data);
      return CUDA_SUCCESS;
    };
    driver().cuMemcpyBatchAsync = [](CUdeviceptr* to, CUdeviceptr* from, std::size_t* sizes,
                                     std::size_t count, CUmemcpyAttributes* attributes,
                                     std::size_t* starts, std::size_t attribute_count,
                                     std::size_t* failed, CUstream) {
      SeenBatch& seen = seen_batches.emplace_back();
      std::size_t attribute = 0;
      EXPECT_EQ(starts[0], 0U);
      EXPECT_NE(failed, nullptr);
      EXPECT_LE(attribute_count, count);
      for (std::size_t i = 0; i < count; ++i) {
        if (attribute + 1 < attribute_count && starts[attribute + 1] == i) ++attribute;
        seen.to.push_back(to[i]);
        seen.from.push_back(from[i]);
        seen.sizes.push_back(sizes[i]);
        seen.flags.push_back(attributes[attribute].flags);
        if (sizes[i] == refused_size) {
          *failed = i;
          return CUDA_ERROR_INVALID_VALUE;
        }
      }
      EXPECT_EQ(attribute + 1, attribute_count);
      return CUDA_SUCCESS;
    };
    for (std::size_t i = 0; i < kManyCopies; ++i) {
      to_.push_back(allocate());
      from_.push_back(allocate());
      sizes_.push_back(100 + i);
    }
    for (unsigned i = 0; i < starts_.size(); ++i) {
      attributes_.push_back({});
      attributes_.back().srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
      attributes_.back().flags = i;
    }
  }
  CUresult copy(std::size_t count, std::size_t* failed = nullptr) {
    return hook::cuMemcpyBatchAsync(to_.data(), from_.data(), sizes_.data(), count,
                                    attributes_.data(), starts_.data(), attributes_.size(), failed,
                                    stream_);
  }

  /// Copies `source` to the device, behind other work.
  CUresult copy_words(std::vector<CUdeviceptr>& source, CUmemcpySrcAccessOrder order) {
    auto from = reinterpret_cast<CUdeviceptr>(source.data());
    std::size_t size = source.size() * sizeof(CUdeviceptr);
    std::size_t start = 0;
    CUmemcpyAttributes attributes{};
    attributes.srcAccessOrder = order;
    std::size_t failed = 0;
    return hook::cuMemcpyBatchAsync(to_.data(), &from, &size, 1, &attributes, &start, 1, &failed,
                                    stream_);
  }
  static std::uint64_t pinned() {
    return ContextRegistry::managed()->residency().stats().pinned_buffers;
  }

  CUstream stream_ = reinterpret_cast<CUstream>(0x5550);
  std::vector<CUdeviceptr> to_;
  std::vector<CUdeviceptr> from_;
  std::vector<std::size_t> sizes_;
  std::vector<CUmemcpyAttributes> attributes_;
  std::vector<std::size_t> starts_ = {0, 1, 7, 13};
};

TEST_F(BatchHooksTest, HandsOverWhatFitsAsItIs) {
  attributes_.resize(2);
  ASSERT_EQ(copy(4), CUDA_SUCCESS);
  ASSERT_EQ(seen_batches.size(), 1U);
  EXPECT_EQ(seen_batches[0].to.size(), 4U);
}

TEST_F(BatchHooksTest, GivesEachPartTheAttributesOfItsCopies) {
  ASSERT_EQ(copy(kManyCopies), CUDA_SUCCESS);
  ASSERT_GT(seen_batches.size(), 1U);
  std::size_t i = 0;
  for (const SeenBatch& part : seen_batches) {
    EXPECT_LE(part.to.size() * 2 * (2_MiB).count(), kBudget.count());
    for (std::size_t k = 0; k < part.to.size(); ++k, ++i) {
      ASSERT_LT(i, kManyCopies);
      EXPECT_EQ(part.to[k], to_[i]);
      EXPECT_EQ(part.from[k], from_[i]);
      EXPECT_EQ(part.sizes[k], sizes_[i]);
      EXPECT_EQ(part.flags[k], i < 1 ? 0U : i < 7 ? 1U : i < 13 ? 2U : 3U) << i;
    }
  }
  EXPECT_EQ(i, kManyCopies);
}

TEST_F(BatchHooksTest, NamesTheCopyThatFailedByItsPlaceInTheWholeBatch) {
  refused_size = sizes_[17];
  std::size_t failed = 0;
  EXPECT_EQ(copy(kManyCopies, &failed), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(failed, 17U);
  EXPECT_GT(seen_batches.size(), 1U);
}

TEST_F(BatchHooksTest, NamesNoCopyWhereTheDriverDoesNot) {
  driver().cuMemcpyBatchAsync = [](CUdeviceptr*, CUdeviceptr*, std::size_t*, std::size_t,
                                   CUmemcpyAttributes*, std::size_t*, std::size_t, std::size_t*,
                                   CUstream) { return CUDA_ERROR_INVALID_CONTEXT; };
  std::size_t failed = 3;
  EXPECT_EQ(copy(4, &failed), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(failed, kNone);
}

TEST_F(BatchHooksTest, GivesTheDriverAPlaceForWhatFailedWhenTheProgramHasNone) {
  std::vector<char> source(200);
  launch(testing::null_kernel(1), to_[0], 0);  // which brings it to the device
  from_[0] = reinterpret_cast<CUdeviceptr>(source.data());
  EXPECT_EQ(copy(kManyCopies), CUDA_SUCCESS);
  EXPECT_EQ(seen_batches.front().from.front(), from_[0]) << "a copy from the host, by itself";
  refused_size = sizes_[0];
  std::size_t failed = kNone;
  EXPECT_EQ(copy(kManyCopies, &failed), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(failed, 0U);
}

TEST_F(BatchHooksTest, ReadsNothingAfterTheCallOfWhatIsToBeReadInIt) {
  host_is_pinned = true;
  std::vector<CUdeviceptr> source{from_[3]};
  ASSERT_EQ(copy_words(source, CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL), CUDA_SUCCESS);
  EXPECT_TRUE(host_functions.empty()) << "the program may have freed the source by then";
  EXPECT_EQ(pinned(), 1U);
}

TEST_F(BatchHooksTest, FindsPointersThatComeToPageableMemoryUntilTheStreamReadsIt) {
  for (const auto order : {CU_MEMCPY_SRC_ACCESS_ORDER_STREAM, CU_MEMCPY_SRC_ACCESS_ORDER_ANY}) {
    const std::uint64_t before = pinned();
    std::vector<CUdeviceptr> source{0};
    ASSERT_EQ(copy_words(source, order), CUDA_SUCCESS);
    EXPECT_EQ(pinned(), before);
    source[0] = order == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM ? from_[3] : from_[4];
    for (const auto& [function, data] : host_functions) function(data);
    host_functions.clear();
    launch(testing::null_kernel(1), buffer_, 0);
    EXPECT_EQ(pinned(), before + 1) << order;
  }
}

TEST_F(BatchHooksTest, DoesNothingOfABatchThatIsNotWellFormed) {
  starts_[2] = 0;
  std::size_t failed = 3;
  EXPECT_EQ(copy(kManyCopies, &failed), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(failed, kNone);
  starts_[2] = 7;
  stream_ = nullptr;
  EXPECT_EQ(copy(kManyCopies), CUDA_ERROR_INVALID_VALUE);
  EXPECT_TRUE(seen_batches.empty());
}

}  // namespace
}  // namespace superpipe

#include "interposer/kernels/pointer_pins.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "interposer/hooks/gates.h"
#include "tests/interposer/managed_fixture.h"

namespace superpipe {
namespace {

/// The host function that the driver was given last, and whether the driver refuses the next.
CUhostFn release = nullptr;
void* release_data = nullptr;
bool refuses = false;

/// The pins of a manager that counts how often it is asked to pin what.
class PointerPinsTest : public testing::ManagedFixture {
 protected:
  void SetUp() override {
    ManagedFixture::SetUp();
    release = nullptr;
    refuses = false;
    driver().cuLaunchHostFunc = [](CUstream, CUhostFn function, void* data) {
      if (refuses) return CUDA_ERROR_OUT_OF_MEMORY;
      release = function;
      release_data = data;
      return CUDA_SUCCESS;
    };
    content_[1] = buffer_;
  }

  static constexpr std::uint64_t kTarget = 0x10000;  ///< where the bytes are to go

  static PointerPins& pins() { return ContextRegistry::managed()->pins(); }

  std::array<std::uint64_t, 4> content_{};
};

TEST_F(PointerPinsTest, FindsNothingPendingWithoutAPointer) {
  content_[1] = 0x1234;
  pins().scan_in_stream(content_.data(), sizeof content_, kTarget, kLegacyStream);
  ASSERT_NE(release, nullptr);
  release(release_data);
  EXPECT_FALSE(pins().has_pending());
}

TEST_F(PointerPinsTest, SearchesWhatTheBytesAreWhenTheStreamGetsThere) {
  content_[1] = 0;
  pins().scan_in_stream(content_.data(), sizeof content_, kTarget, kLegacyStream);
  ASSERT_NE(release, nullptr);
  EXPECT_FALSE(pins().has_pending());
  content_[1] = buffer_;
  release(release_data);
  EXPECT_TRUE(pins().has_pending());
  EXPECT_EQ(pins().pin_pending(), Status::kOk);
  EXPECT_FALSE(pins().has_pending());
}

TEST_F(PointerPinsTest, PinsWhatIsPendingAtTheNextLaunch) {
  pins().scan_in_stream(content_.data(), sizeof content_, kTarget, kLegacyStream);
  release(release_data);
  ASSERT_TRUE(pins().has_pending());
  EXPECT_EQ(launch(testing::null_kernel(1), buffer_, other_), CUDA_SUCCESS);
  EXPECT_FALSE(pins().has_pending());
}

TEST_F(PointerPinsTest, SearchesWhereTheDeviceCouldLoadAPointer) {
  std::array<char, 20> packed{};
  const std::uint64_t word = buffer_;
  std::memcpy(packed.data() + 4, &word, sizeof word);
  pins().scan_in_stream(packed.data(), packed.size(), kTarget, kLegacyStream);
  release(release_data);
  EXPECT_FALSE(pins().has_pending()) << "halves of two words";
  pins().scan_in_stream(packed.data(), packed.size(), kTarget + 4, kLegacyStream);
  release(release_data);
  EXPECT_TRUE(pins().has_pending()) << "a word where it comes to be";
  EXPECT_EQ(pins().pin_pending(), Status::kOk);
}

// A number in the arena's range is not yet a pointer: nobody has given the program this address.
TEST_F(PointerPinsTest, TakesOnlyAddressesOfLiveBuffersForPointers) {
  const CUdeviceptr freed = allocate(64 << 20);
  ASSERT_EQ(hook::cuMemFree_v2(freed), CUDA_SUCCESS);
  content_ = {buffer_ + kBytes, freed, other_ + (std::uint64_t{1} << 38), buffer_ - 1};
  pins().scan_in_stream(content_.data(), sizeof content_, kTarget, kLegacyStream);
  release(release_data);
  EXPECT_FALSE(pins().has_pending());
  content_[2] = buffer_ + kBytes - 1;
  pins().scan_in_stream(content_.data(), sizeof content_, kTarget, kLegacyStream);
  release(release_data);
  EXPECT_TRUE(pins().has_pending());
  EXPECT_EQ(pins().pin_pending(), Status::kOk);
  EXPECT_EQ(ContextRegistry::managed()->residency().stats().pinned_buffers, 1U);
}

TEST_F(PointerPinsTest, SearchesNoLargeCopiesAndNoNull) {
  const std::vector<std::uint64_t> large(PointerPins::kLargestScan / 8 + 1, buffer_);
  pins().scan_in_stream(large.data(), 8 * large.size(), kTarget, kLegacyStream);
  pins().scan_in_stream(nullptr, 64, kTarget, kLegacyStream);
  EXPECT_EQ(release, nullptr);
  EXPECT_EQ(pins().pin_named_by(large.data(), 8 * large.size(), kTarget), Status::kOk);
  EXPECT_EQ(pins().pin_named_by(nullptr, 64, kTarget), Status::kOk);
}

TEST_F(PointerPinsTest, KeepsNothingOfAScanThatTheDriverRefuses) {
  refuses = true;
  pins().scan_in_stream(content_.data(), sizeof content_, kTarget, kLegacyStream);
  EXPECT_EQ(release, nullptr);
  EXPECT_FALSE(pins().has_pending());
}

// A driver may run it only when a host function of the program has ended, which waits for it.
TEST_F(PointerPinsTest, SearchesAtLaunchesOnceTheProgramHasHostFunctionsOfItsOwn) {
  static bool is_over = false;
  is_over = false;
  driver().cuEventQuery = [](CUevent) { return is_over ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY; };
  Gates::note();
  content_[1] = 0;
  pins().scan_in_stream(content_.data(), sizeof content_, kTarget, kLegacyStream);
  EXPECT_EQ(release, nullptr);
  EXPECT_TRUE(pins().has_pending());
  EXPECT_EQ(launch(testing::null_kernel(1), other_, other_), CUDA_SUCCESS);
  EXPECT_TRUE(pins().has_pending()) << "the copy has not begun";
  EXPECT_EQ(ContextRegistry::managed()->residency().stats().pinned_buffers, 0U);
  content_[1] = buffer_;
  is_over = true;
  EXPECT_EQ(launch(testing::null_kernel(1), other_, other_), CUDA_SUCCESS);
  EXPECT_FALSE(pins().has_pending());
  EXPECT_EQ(ContextRegistry::managed()->residency().stats().pinned_buffers, 1U);
}

// The context's end waits for its host functions, but a thread may still hold the pins.
TEST_F(PointerPinsTest, PinsNothingOnceTheContextIsClosed) {
  PointerPins& held = pins();
  CUcontext context = nullptr;
  driver().cuCtxGetCurrent(&context);
  ContextRegistry::of_process().on_destroying(context);
  EXPECT_EQ(held.pin_named_by(content_.data(), sizeof content_, kTarget), Status::kOk);
  held.scan_in_stream(content_.data(), sizeof content_, kTarget, kLegacyStream);
  release(release_data);
  EXPECT_EQ(held.pin_pending(), Status::kOk);
}

}  // namespace
}  // namespace superpipe

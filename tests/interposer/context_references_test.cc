#include "interposer/contexts/context_references.h"

#include <gtest/gtest.h>

#include "tests/interposer/null_driver.h"

namespace superpipe {
namespace {

class ContextReferencesTest : public ::testing::Test {
 protected:
  void SetUp() override { testing::forget_contexts(); }

  static CUcontext context(std::uintptr_t number) {
    return reinterpret_cast<CUcontext>(16 * number);
  }

  static CUgreenCtx green(std::uintptr_t number) {
    return reinterpret_cast<CUgreenCtx>(16 * number);
  }

  ContextReferences references_;
};

TEST_F(ContextReferencesTest, CountsCreatedContexts) {
  references_.on_created();
  EXPECT_FALSE(ContextCount::has_several());
  references_.on_created();
  EXPECT_TRUE(ContextCount::has_several());
  references_.on_destroyed();
  EXPECT_FALSE(ContextCount::has_several());
  references_.on_destroyed();
}

TEST_F(ContextReferencesTest, CountsAPrimaryContextOnceHoweverOftenItIsRetained) {
  references_.on_created();
  references_.on_primary_retained(0);
  references_.on_primary_retained(0);
  EXPECT_TRUE(ContextCount::has_several());
  EXPECT_FALSE(references_.on_primary_releasing(0));
  EXPECT_TRUE(ContextCount::has_several());
  EXPECT_TRUE(references_.on_primary_releasing(0));
  EXPECT_FALSE(ContextCount::has_several());
  references_.on_destroyed();
}

TEST_F(ContextReferencesTest, IgnoresTheReleaseOfAPrimaryContextThatIsNotHeld) {
  references_.on_created();
  references_.on_created();
  EXPECT_FALSE(references_.on_primary_releasing(1));
  EXPECT_TRUE(ContextCount::has_several());
  references_.on_destroyed();
  references_.on_destroyed();
}

TEST_F(ContextReferencesTest, EndsAllReferencesToAPrimaryContextAtAReset) {
  references_.on_created();
  references_.on_primary_retained(0);
  references_.on_primary_retained(0);
  references_.on_primary_reset(0);
  EXPECT_FALSE(ContextCount::has_several());
  references_.on_primary_reset(0);  // of a context that is not there any more
  EXPECT_FALSE(references_.on_primary_releasing(0));
  references_.on_destroyed();
  references_.on_primary_retained(0);
  EXPECT_TRUE(references_.on_primary_releasing(0));
}

TEST_F(ContextReferencesTest, KeepsADetachFromBeingTheLastWhileAnAttachIsOpen) {
  EXPECT_TRUE(references_.is_last(context(1)));
  references_.on_attached(context(1));
  EXPECT_FALSE(references_.is_last(context(1)));
  EXPECT_TRUE(references_.is_last(context(2)));
  references_.on_detached(context(1));
  EXPECT_TRUE(references_.is_last(context(1)));
}

TEST_F(ContextReferencesTest, ForgetsAttachesWithTheContext) {
  references_.on_attached(context(1));
  references_.on_destroying(context(1));
  EXPECT_TRUE(references_.is_last(context(1)));
}

TEST_F(ContextReferencesTest, KnowsTheContextsOfGreenContextsUntilTheseGo) {
  references_.on_primary_retained(0);
  references_.on_green_created(green(1), 0);
  EXPECT_TRUE(ContextCount::has_several()) << "a stream of it tells its handle as a context";
  references_.on_converted(context(1), green(1));
  references_.on_converted(context(1), green(1));
  EXPECT_TRUE(references_.is_green(context(1)));
  EXPECT_FALSE(references_.is_green(context(2)));
  EXPECT_TRUE(ContextCount::has_several());
  EXPECT_EQ(references_.on_green_destroying(green(1)), std::nullopt) << "the program retains it";
  EXPECT_FALSE(references_.is_green(context(1))) << "the handle may be another context's now";
  EXPECT_FALSE(ContextCount::has_several());
  EXPECT_TRUE(references_.on_primary_releasing(0));
}

TEST_F(ContextReferencesTest, EndsThePrimaryContextWithItsLastGreenOne) {
  references_.on_green_created(green(1), 0);
  references_.on_green_created(green(2), 0);
  EXPECT_EQ(references_.on_green_destroying(green(1)), std::nullopt);
  EXPECT_EQ(references_.on_green_destroying(green(1)), std::nullopt) << "which the driver refuses";
  EXPECT_EQ(references_.on_green_destroying(green(2)), std::optional<CUdevice>(0));
}

}  // namespace
}  // namespace superpipe

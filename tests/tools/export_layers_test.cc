// Rows of layers in a timeline.
#include "tools/superpipe/export_layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "policy/layer_grouping.h"
#include "tests/tools/line_sink.h"

namespace superpipe::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr BufferId kFirstBuffer{1};
constexpr BufferId kSecondBuffer{2};
constexpr BufferId kShared{3};
constexpr BufferId kOther{4};

/// Two layers of a buffer each, a buffer that both use, and one of no layer.
class LayerTracksTest : public ::testing::Test {
 protected:
  LayerTracksTest() {
    layers_.layer_of = {0, 1, 2, kNoLayer};
    layers_.layers = 2;
    layers_.shared = 2;
  }
  LayerTracks begin() {
    LayerTracks tracks(sink_, layers_);
    tracks.begin([this](Track track) {
      track.id = ++defined_;
      sink_.define(track);
      names_.push_back(track.name);
      return defined_;
    });
    return tracks;
  }

  TracedLayers layers_;
  LineSink sink_;
  std::uint64_t defined_ = 0;
  std::vector<std::string> names_;
};

TEST_F(LayerTracksTest, EachLayerHasARowAndACounter) {
  LayerTracks tracks = begin();
  EXPECT_THAT(names_, ElementsAre("Layers", "layer 1", "layer 1: resident pages", "layer 2",
                                  "layer 2: resident pages", "shared by layers: resident pages"));
  EXPECT_EQ(tracks.add_buffer(kFirstBuffer), 3U);
  EXPECT_EQ(tracks.add_buffer(kSecondBuffer), 5U);
  EXPECT_EQ(tracks.add_buffer(kShared), 6U);
  EXPECT_EQ(tracks.add_buffer(kOther), 0U);
  EXPECT_EQ(tracks.add_buffer(kOther), 0U) << "the program of the layers had no more";
}

TEST_F(LayerTracksTest, ALayerIsInUseUntilAnotherIs) {
  LayerTracks tracks = begin();
  for (const BufferId buffer : {kFirstBuffer, kSecondBuffer, kShared, kOther}) {
    tracks.add_buffer(buffer);
  }
  tracks.launch(10, std::array{kFirstBuffer, kShared});
  tracks.launch(20, std::array{kOther});
  tracks.launch(30, std::array{kFirstBuffer});
  tracks.launch(40, std::array{kSecondBuffer});
  tracks.launch(50, std::array{kSecondBuffer, kFirstBuffer});
  tracks.finish(70);
  EXPECT_THAT(sink_.on("layer 1"), ElementsAre("10+30 layer 1", "50+20 layer 1"));
  EXPECT_THAT(sink_.on("layer 2"), ElementsAre("40+30 layer 2"));
}

TEST_F(LayerTracksTest, AFreedBufferIsOfNoLayer) {
  LayerTracks tracks = begin();
  tracks.add_buffer(kFirstBuffer);
  tracks.remove_buffer(kFirstBuffer);
  tracks.launch(10, std::array{kFirstBuffer});
  tracks.finish(20);
  EXPECT_THAT(sink_.on("layer 1"), IsEmpty());
}

TEST_F(LayerTracksTest, LaunchesOutOfOrderDoNotOverlap) {
  LayerTracks tracks = begin();
  tracks.add_buffer(kFirstBuffer);
  tracks.add_buffer(kSecondBuffer);
  tracks.launch(50, std::array{kFirstBuffer});
  tracks.launch(40, std::array{kSecondBuffer});
  tracks.launch(45, std::array{kFirstBuffer});
  tracks.finish(60);
  EXPECT_THAT(sink_.on("layer 1"), ElementsAre("50+0 layer 1", "50+10 layer 1"));
}

TEST_F(LayerTracksTest, ManyLayersShareRows) {
  layers_.layers = 3 * LayerTracks::kMostRows;
  layers_.shared = kNoLayer;
  layers_.layer_of = {0, 2, 3};
  LayerTracks tracks = begin();
  EXPECT_EQ(names_.size(), 1 + 2 * LayerTracks::kMostRows);
  EXPECT_EQ(names_.at(1), "layers 1 to 3");
  EXPECT_EQ(tracks.add_buffer(kFirstBuffer), tracks.add_buffer(kSecondBuffer));
  EXPECT_NE(tracks.add_buffer(kOther), 0U);
}

TEST_F(LayerTracksTest, WithoutLayersThereAreNoRows) {
  layers_ = {};
  LayerTracks tracks = begin();
  EXPECT_THAT(names_, IsEmpty());
  EXPECT_EQ(tracks.add_buffer(kFirstBuffer), 0U);
  tracks.launch(10, std::array{kFirstBuffer});
  tracks.finish(20);
}

}  // namespace
}  // namespace superpipe::cli

// Traces whose checksums are right and whose events are nonsense: every format survives them.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "profiler/trace_reader.h"
#include "tests/profiler/trace_examples.h"
#include "tests/tools/export_testing.h"
#include "tools/superpipe/export_chrome.h"
#include "tools/superpipe/export_csv.h"
#include "tools/superpipe/export_perfetto.h"
#include "tools/superpipe/export_snapshot.h"
#include "tools/superpipe/export_stacks.h"
#include "tools/superpipe/export_tracks.h"

namespace superpipe::cli {
namespace {

// Whether any event got through: else the test would test the reader only.
bool export_to(TraceExporter& exporter, std::span<const std::byte> file) {
  auto reader = TraceReader::from(std::make_unique<TraceBytesSource>(file), "trace");
  if (!reader.ok()) return false;
  exporter.begin(reader->properties());
  const auto problem = reader->read_all(exporter);
  exporter.finish();
  return !problem;
}

TEST(Export, SurvivesEventsThatMakeNoSense) {
  const std::vector<std::byte> good = testing::example_trace();
  const auto chunks = testing::chunks_of(good);
  std::mt19937 random(1);
  int readable = 0;
  for (int round = 0; round < 120; ++round) {
    std::vector<std::byte> bad(good.begin(), good.begin() + kTraceHeaderSize);
    for (const auto& chunk : chunks) {
      auto raw = testing::raw_of(good, chunk);
      if (chunk.header.kind == TraceChunkHeader::Kind::kEvents) {
        raw[random() % raw.size()] = static_cast<std::byte>(random());
      }
      const auto bytes = testing::chunk_with(chunk.header, raw);
      bad.insert(bad.end(), bytes.begin(), bytes.end());
    }
    TextSink sink;
    PerfettoWriter perfetto(sink);
    ChromeWriter chrome(sink);
    TrackExporter perfetto_exporter(perfetto);
    TrackExporter chrome_exporter(chrome);
    TorchSnapshotWriter snapshot(sink);
    CsvWriter csv(sink);
    CollapsedWriter collapsed(sink, StackWeight::kPeak);
    SpeedscopeWriter speedscope(sink);
    for (TraceExporter* const exporter : std::initializer_list<TraceExporter*>{
             &perfetto_exporter, &chrome_exporter, &snapshot, &csv, &collapsed, &speedscope}) {
      readable += export_to(*exporter, bad) ? 1 : 0;
    }
  }
  EXPECT_GT(readable, 60);
}

}  // namespace
}  // namespace superpipe::cli

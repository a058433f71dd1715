// Memory snapshots as PyTorch writes them, for torch.cuda._memory_viz and pytorch.org/memory_viz.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "tools/superpipe/export_pickle.h"
#include "tools/superpipe/export_sink.h"
#include "tools/superpipe/trace_exporter.h"

namespace superpipe::cli {

/// Writes allocations and frees as torch.cuda.memory._dump_snapshot() does.
///
/// Every allocation is a segment with one block: its footprint where superpipe manages it, else its
/// size. A snapshot knows nothing of evictions: it shows what the program allocated, wherever it
/// lies. Memory: what is live at the trace's end. Format: docs.pytorch.org/docs/stable/
/// torch_cuda_memory.html, "Snapshot API Reference".
class TorchSnapshotWriter final : public TraceExporter {
 public:
  /// `out` must outlive it.
  explicit TorchSnapshotWriter(ExportSink& out) : pickle_(out) {}

  void begin(const TraceProperties& properties) override;
  void finish() override;
  void on_allocation(const TraceMoment& when, const TraceAllocation& event) override;
  void on_free(const TraceMoment& when, const TraceFree& event) override;

 private:
  void write_entry(const char* action, std::int64_t time, const TraceAllocation& allocation,
                   Bytes size);
  void write_end_of(const LiveAllocation& allocation, std::int64_t time);
  void write_segment(const TraceAllocation& allocation);
  void write_frames(TraceIndex call_site);
  [[nodiscard]] std::uint64_t microseconds(std::int64_t time) const;

  /// As many as a list takes at once in Python's own pickles.
  static constexpr std::uint32_t kBatch = 1000;
  /// Devices before this one have empty lists.
  static constexpr std::uint64_t kMostDevices = 64;

  PickleWriter pickle_;
  std::uint64_t device_ = 0;
  std::uint64_t start_unix_ns_ = 0;
  std::uint32_t in_batch_ = 0;
  LiveAllocations live_;
  std::unordered_map<TraceIndex, std::uint32_t> frames_;  // what was kept of each call site
};

}  // namespace superpipe::cli

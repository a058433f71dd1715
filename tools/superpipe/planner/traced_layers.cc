#include "tools/superpipe/planner/traced_layers.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>

#include "policy/layer_grouping.h"

namespace superpipe::cli {
namespace {

// Where the buffers that live throughout [begin, end) have their footprints, and all others zero.
std::vector<Bytes> footprints_throughout(const TracedProgram& program, std::size_t begin,
                                         std::size_t end) {
  std::vector<Bytes> footprints(program.buffers());
  const auto steps = program.steps();
  for (std::size_t i = 0; i < end && i < steps.size(); ++i) {
    const TracedStep& step = steps[i];
    if (step.kind == TracedStep::Kind::kAllocate && i < begin) {
      footprints[step.buffer] = program.footprint(step.buffer);
    } else if (step.kind == TracedStep::Kind::kFree) {
      footprints[step.buffer] = Bytes{};
    }
  }
  return footprints;
}

// A pass is found from any of its launches on, and may begin in the midst of a layer. Here it
// begins with the launch that names the buffer which the program used first of all that are
// persistent.
// @return that launch, counted within the pass.
std::size_t first_of_pass(const TracedProgram& program, std::span<const LaunchRecord> pass,
                          std::vector<Bytes> footprints, std::span<const BufferId> shared) {
  for (const BufferId buffer : shared) footprints[index_of(buffer)] = Bytes{};
  std::vector<std::size_t> first_use(footprints.size(), std::numeric_limits<std::size_t>::max());
  for (std::size_t launch = 0; launch < program.launches(); ++launch) {
    for (const std::uint32_t buffer :
         program.names(program.steps()[program.step_of_launch(launch)])) {
      first_use[buffer] = std::min(first_use[buffer], launch);
    }
  }
  std::size_t best = 0;
  std::size_t earliest = std::numeric_limits<std::size_t>::max();
  for (std::size_t i = 0; i < pass.size(); ++i) {
    for (const BufferId buffer : pass[i].buffers) {
      const std::uint32_t number = index_of(buffer);
      if (footprints[number] == Bytes{} || first_use[number] >= earliest) continue;
      earliest = first_use[number];
      best = i;
    }
  }
  return best;
}

}  // namespace

std::uint32_t TracedLayers::of(std::uint64_t earlier) const {
  return earlier < layer_of.size() ? layer_of[earlier] : kNoLayer;
}

std::string TracedLayers::name_of(std::uint32_t layer) const {
  return layer == shared ? "shared" : std::to_string(layer + 1);
}

std::string TracedLayers::row_of(std::uint32_t layer, std::size_t most_rows) const {
  if (layer == shared) return "shared by layers";
  const std::size_t share = (layers + most_rows - 1) / most_rows;
  if (share <= 1) return "layer " + std::to_string(layer + 1);
  const std::size_t first = layer / share * share;
  const std::size_t last = std::min<std::size_t>(first + share, layers);
  return "layers " + std::to_string(first + 1) + " to " + std::to_string(last);
}

TracedLayers find_layers(const TracedProgram& program, const TracedPasses& passes) {
  TracedLayers found;
  found.layer_of.assign(program.buffers(), kNoLayer);
  if (passes.size() == 0) return found;
  // Optimizer states and the like are there only after the first passes.
  const std::size_t pass = passes.size() - 1;
  const std::size_t first = passes.begins[pass];
  const std::size_t last = passes.begins[pass + 1];
  std::vector<std::vector<BufferId>> named;
  std::vector<KernelId> kernels;
  for (std::size_t launch = first; launch < last; ++launch) {
    const TracedStep& step = program.steps()[program.step_of_launch(launch)];
    kernels.push_back(KernelId{program.kernel_id(step.kernel)});
    std::vector<BufferId>& buffers = named.emplace_back();
    for (const std::uint32_t number : program.names(step)) buffers.push_back(BufferId{number});
  }
  if (named.empty()) return found;
  std::vector<LaunchRecord> records;
  for (std::size_t i = 0; i < named.size(); ++i) records.push_back({kernels[i], named[i]});
  const std::vector<Bytes> footprints = footprints_throughout(
      program, program.step_of_launch(first), program.step_of_launch(last - 1) + 1);
  const std::size_t begin =
      first_of_pass(program, records, footprints, group_layers(records, footprints).shared);
  std::rotate(records.begin(), records.begin() + static_cast<std::ptrdiff_t>(begin), records.end());
  const LayerGroups groups = group_layers(records, footprints);
  for (const std::vector<BufferId>& layer : groups.layers) {
    for (const BufferId buffer : layer) found.layer_of[index_of(buffer)] = found.layers;
    ++found.layers;
  }
  if (groups.shared.empty()) return found;
  found.shared = found.layers;
  for (const BufferId buffer : groups.shared) found.layer_of[index_of(buffer)] = found.shared;
  return found;
}

}  // namespace superpipe::cli

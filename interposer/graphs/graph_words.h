// Which managed buffers the nodes of a graph name.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "interposer/driver/cuda_api.h"

namespace superpipe {

/// The words in the arena that each node of a graph names, and those of the graphs in its nodes.
///
/// A node is known by the handle that it has in the graph which was instantiated: that is how a
/// program names it when it changes the executable graph. Not thread-safe. Throws std::bad_alloc.
class GraphWords {
 public:
  using Words = std::vector<std::uint64_t>;

  /// The node names `words` from now on, and nothing that it named before. A node that was never
  /// set is looked for in the graphs of nodes too, and else taken for one of this graph.
  void set(CUgraphNode node, Words words);

  /// `graph` is the graph of the node `node` from now on, instead of the one that it had before.
  void set_child(CUgraphNode node, GraphWords graph);

  /// Some node, it is not known which, may name `words` as well.
  void add(const Words& words);

  /// All words, each once, in ascending order.
  [[nodiscard]] Words all() const;

 private:
  bool set_known(CUgraphNode node, Words& words);
  void append_to(Words& words) const;

  std::map<CUgraphNode, Words> nodes_;  ///< those of add() under null, which names no node
  std::map<CUgraphNode, std::unique_ptr<GraphWords>> children_;
};

}  // namespace superpipe

// Asks the driver what a graph is made of.
#pragma once

#include <cstddef>

#include "interposer/driver/cuda_api.h"
#include "interposer/graphs/graph_words.h"
#include "policy/units.h"

namespace superpipe {

class ManagedContext;

/// What a graph names, as the driver tells.
struct ReadGraph {
  GraphWords words;
  /// Of these, what copies and fills name: the driver looks such addresses up when it takes a node.
  GraphWords::Words checked;
  std::size_t nodes = 0;  ///< those of graphs in nodes too
  /// How much of the managed device is allocated at once by nodes that allocate, one after the
  /// other in the order in which they came to be: the driver uses memory again that a node has
  /// freed.
  Bytes allocates;
  /// Whether that is all. If not, there is a node of a kind that is not known here, a kernel whose
  /// parameters the driver does not tell, or one that device code may change.
  bool complete = true;
  /// False: it is no graph that the driver knows.
  bool exists = true;
};

/// Reads the nodes of `graph`, and of the graphs in them, as they are now: however they came to be,
/// by capture, one by one, as a clone, or changed since. May load code, to know the parameters of
/// a kernel. Cost: three driver calls a node. Throws std::bad_alloc.
[[nodiscard]] ReadGraph read_graph(ManagedContext& managed, CUgraph graph);

}  // namespace superpipe

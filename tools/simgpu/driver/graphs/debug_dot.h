// Graphs as text for Graphviz.
#pragma once

#include <string>

#include "tools/simgpu/driver/graphs/graph.h"

namespace simgpu {

/// Writes `graph`, with the graphs in its nodes, to the file `path`. REQUIRES: graphs_mutex().
/// @return false if the file cannot be written.
bool write_dot(const Graph& graph, const std::string& path);

}  // namespace simgpu

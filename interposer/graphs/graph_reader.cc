#include "interposer/graphs/graph_reader.h"

#include <algorithm>
#include <map>
#include <new>
#include <utility>
#include <vector>

#include "interposer/contexts/managed_context.h"
#include "interposer/driver/table.h"
#include "interposer/hooks/named_words.h"

namespace superpipe {
namespace {

GraphWords::Words words_of(const NamedWords& named) {
  if (named.words().failed()) throw std::bad_alloc();
  const auto words = named.words().words();
  return {words.begin(), words.end()};
}

/// Reads one graph and those in its nodes into one ReadGraph.
class Reader {
 public:
  Reader(ManagedContext& managed, ReadGraph& read) : managed_(managed), read_(read) {}

  GraphWords graph(CUgraph graph) {
    GraphWords words;
    std::size_t count = 0;
    if (driver().cuGraphGetNodes(graph, nullptr, &count) != CUDA_SUCCESS) {
      read_.complete = false;
      return words;
    }
    std::vector<CUgraphNode> nodes(count);
    if (count > 0 && driver().cuGraphGetNodes(graph, nodes.data(), &count) != CUDA_SUCCESS) {
      read_.complete = false;
      return words;
    }
    nodes.resize(std::min(nodes.size(), count));
    read_.nodes += nodes.size();
    for (const CUgraphNode node : nodes) add(node, words);
    return words;
  }

 private:
  void add(CUgraphNode node, GraphWords& words) {
    CUgraphNodeType type{};
    if (driver().cuGraphNodeGetType(node, &type) != CUDA_SUCCESS) {
      read_.complete = false;
      return;
    }
    NamedWords named;
    bool understood = true;
    switch (type) {
      case CU_GRAPH_NODE_TYPE_KERNEL:
        understood = add_kernel(node, named);
        break;
      case CU_GRAPH_NODE_TYPE_MEMCPY:
        understood =
            add_parameters<CUDA_MEMCPY3D>(driver().cuGraphMemcpyNodeGetParams, node, named);
        break;
      case CU_GRAPH_NODE_TYPE_MEMSET:
        understood = add_parameters<CUDA_MEMSET_NODE_PARAMS_v1>(driver().cuGraphMemsetNodeGetParams,
                                                                node, named);
        break;
      case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        understood = add_parameters<CUDA_BATCH_MEM_OP_NODE_PARAMS_v1>(
            driver().cuGraphBatchMemOpNodeGetParams, node, named);
        break;
      case CU_GRAPH_NODE_TYPE_GRAPH:
        understood = add_child(node, words);
        break;
      case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        note_allocation(node);
        break;
      case CU_GRAPH_NODE_TYPE_MEM_FREE:
        note_free(node);
        break;
      case CU_GRAPH_NODE_TYPE_EMPTY:
      case CU_GRAPH_NODE_TYPE_HOST:
      case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
      case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
        break;
      default:
        // Conditional nodes have graphs that the driver does not tell about; others are newer than
        // our header.
        understood = false;
        break;
    }
    read_.complete = read_.complete && understood;
    if (named.words().empty()) return;
    GraphWords::Words found = words_of(named);
    if (type != CU_GRAPH_NODE_TYPE_KERNEL) {
      read_.checked.insert(read_.checked.end(), found.begin(), found.end());
    }
    words.set(node, std::move(found));
  }

  bool add_kernel(CUgraphNode node, NamedWords& named) {
    CUDA_KERNEL_NODE_PARAMS kernel{};
    if (driver().cuGraphKernelNodeGetParams_v2(node, &kernel) != CUDA_SUCCESS) return false;
    // Device code can give such a node other parameters, which no hook sees. A driver that does not
    // know the attribute has no such nodes.
    CUlaunchAttributeValue attribute{};
    if (driver().cuGraphKernelNodeGetAttribute(
            node, CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE, &attribute) == CUDA_SUCCESS &&
        attribute.deviceUpdatableKernelNode.deviceUpdatable != 0) {
      return false;
    }
    named.add_as_launched(kernel);
    if (kernel.kernelParams == nullptr) return true;
    return managed_.layouts().find(function_of(kernel)) != nullptr;
  }

  template <typename Parameters, typename Get>
  static bool add_parameters(const Get& get, CUgraphNode node, NamedWords& named) {
    Parameters parameters{};
    if (get(node, &parameters) != CUDA_SUCCESS) return false;
    named.add(&parameters);
    return true;
  }

  /// Memory of the graph's own, which names no buffer.
  void note_allocation(CUgraphNode node) {
    CUDA_MEM_ALLOC_NODE_PARAMS allocation{};
    const bool is_here = driver().cuGraphMemAllocNodeGetParams(node, &allocation) == CUDA_SUCCESS &&
                         allocation.poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
                         allocation.poolProps.location.id == managed_.device();
    if (!is_here) return;
    const Bytes size = round_up(Bytes{allocation.bytesize}, managed_.granule());
    allocated_[allocation.dptr] = size;
    live_ += size;
    read_.allocates = std::max(read_.allocates, live_);
  }

  void note_free(CUgraphNode node) {
    CUdeviceptr address = 0;
    if (driver().cuGraphMemFreeNodeGetParams(node, &address) != CUDA_SUCCESS) return;
    const auto found = allocated_.find(address);
    if (found == allocated_.end()) return;
    live_ -= found->second;
    allocated_.erase(found);
  }

  bool add_child(CUgraphNode node, GraphWords& words) {
    CUgraph child = nullptr;
    if (driver().cuGraphChildGraphNodeGetGraph(node, &child) != CUDA_SUCCESS) return false;
    words.set_child(node, graph(child));
    return true;
  }

  ManagedContext& managed_;
  ReadGraph& read_;
  std::map<CUdeviceptr, Bytes> allocated_;  ///< by nodes so far, and not freed by others
  Bytes live_;                              ///< all of these
};

}  // namespace

ReadGraph read_graph(ManagedContext& managed, CUgraph graph) {
  ReadGraph read;
  std::size_t count = 0;
  read.exists = driver().cuGraphGetNodes(graph, nullptr, &count) == CUDA_SUCCESS;
  if (!read.exists) return read;
  read.words = Reader(managed, read).graph(graph);
  return read;
}

}  // namespace superpipe

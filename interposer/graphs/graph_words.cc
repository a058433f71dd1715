#include "interposer/graphs/graph_words.h"

#include <algorithm>
#include <utility>

namespace superpipe {
namespace {

// Sorts the words and drops those that are there twice.
void keep_once(GraphWords::Words& words) {
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
}

}  // namespace

void GraphWords::set(CUgraphNode node, Words words) {
  if (!set_known(node, words)) nodes_[node] = std::move(words);
}

// @return whether the node is known here; `words` is moved from then.
bool GraphWords::set_known(CUgraphNode node, Words& words) {
  if (const auto found = nodes_.find(node); found != nodes_.end()) {
    found->second = std::move(words);
    return true;
  }
  return std::any_of(children_.begin(), children_.end(),
                     [&](const auto& child) { return child.second->set_known(node, words); });
}

void GraphWords::set_child(CUgraphNode node, GraphWords graph) {
  auto made = std::make_unique<GraphWords>(std::move(graph));
  for (auto& [parent, child] : children_) {
    // It may be a node of the graph in another node.
    if (child->children_.contains(node)) {
      child->set_child(node, std::move(*made));
      return;
    }
  }
  children_[node] = std::move(made);
}

void GraphWords::add(const Words& words) {
  Words& unknown = nodes_[nullptr];
  unknown.insert(unknown.end(), words.begin(), words.end());
  keep_once(unknown);
}

GraphWords::Words GraphWords::all() const {
  Words words;
  append_to(words);
  keep_once(words);
  return words;
}

void GraphWords::append_to(Words& words) const {
  for (const auto& [node, named] : nodes_) words.insert(words.end(), named.begin(), named.end());
  for (const auto& [node, child] : children_) child->append_to(words);
}

}  // namespace superpipe

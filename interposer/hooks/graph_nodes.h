// Operations that become nodes of graphs, instead of being run.
#pragma once

#include <cstdint>
#include <span>

#include "interposer/contexts/managed_context.h"
#include "interposer/driver/codes.h"
#include "interposer/driver/cuda_api.h"
#include "interposer/hooks/named_words.h"
#include "residency/uses/use_token.h"

namespace superpipe {

/// Why buffers stay on the device that an operation names which events cannot order.
inline constexpr char kUnordered[] = "used where events cannot order it";

/// Calls the driver through `call`, which makes a node that names `words`: at a launch of its graph
/// they will be used. Until then they need not be on the device, except those that `checked`
/// names, which the driver looks up in the call. They are noted all the same, for a graph of which
/// the driver will not tell everything. `kind`: of the call.
/// @return what `call` returned, or why a buffer could not be had.
template <typename Call>
CUresult make_node(ManagedContext& managed, std::span<const std::uint64_t> words,
                   std::span<const std::uint64_t> checked, CallKind kind,
                   const Call& call) noexcept {
  Status status = managed.noted_words().add(words);
  UseToken token;
  if (status == Status::kOk) status = managed.residency().begin_hold(checked, token);
  if (status != Status::kOk) return managed.failure(status, kind);
  const CUresult result = call();
  managed.residency().end_hold(token);
  return result;
}

/// A call of class node: one that gives a node of a graph its parameters, which name `named`.
template <typename Call>
CUresult submit_node(const NamedWords& named, const Call& call) noexcept {
  if (named.words().empty() || !named.managed()->moves()) return call();
  if (named.words().failed() || named.checked().failed()) return CUDA_ERROR_OUT_OF_MEMORY;
  return make_node(*named.managed(), named.words().words(), named.checked().words(),
                   CallKind::kAllocation, call);
}

/// Before a node of the executable graph `graph` is given what `named` has: if device code may
/// launch the graph, unseen, that stays on the device. @return why it cannot.
CUresult keep_for_device(CUgraphExec graph, const NamedWords& named) noexcept;

/// The driver is about to give a node of the executable graph `graph` what `named` has. Until
/// end_node_of() nobody knows what the graph uses, and a launch of it is refused.
/// @return CUDA_ERROR_OUT_OF_MEMORY.
CUresult begin_node_of(CUgraphExec graph, const NamedWords& named) noexcept;
/// The driver answered with `result`: if that is success, the node `node` names `named` now. If
/// host memory is out then, launches of the graph stay refused. @return `result`, or
/// CUDA_ERROR_OUT_OF_MEMORY.
CUresult end_node_of(CUgraphExec graph, CUgraphNode node, const NamedWords& named,
                     CUresult result) noexcept;

/// The same for the node `node` of the executable graph `graph`, which uses from then on what
/// `named` has, and no longer what the node named before.
template <typename Call>
CUresult submit_node_of(CUgraphExec graph, CUgraphNode node, const NamedWords& named,
                        const Call& call) noexcept {
  CUresult result = keep_for_device(graph, named);
  if (result == CUDA_SUCCESS) result = begin_node_of(graph, named);
  if (result != CUDA_SUCCESS) return result;
  return end_node_of(graph, node, named, submit_node(named, call));
}

}  // namespace superpipe

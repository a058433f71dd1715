// Submitting operations that name managed buffers.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

#include "interposer/contexts/managed_context.h"
#include "interposer/driver/streams.h"
#include "interposer/hooks/graph_nodes.h"
#include "interposer/hooks/named_words.h"
#include "interposer/hooks/traced.h"
#include "interposer/log.h"

namespace superpipe {

/// Submits an operation that names `words` through `call` to a stream on which events cannot order
/// it (see ManagedContext::can_order). What is captured becomes a node of a graph; else the buffers
/// stay on the device until they are freed. `checked`: as for make_node().
/// @return what `call` returned, or why the buffers could not be made resident.
template <typename Call>
[[gnu::noinline]] CUresult submit_unordered(ManagedContext& managed,
                                            std::span<const std::uint64_t> words,
                                            std::span<const std::uint64_t> checked,
                                            StreamHandle stream, const Call& call) noexcept {
  if (managed.moves() && is_captured(stream)) {
    return make_node(managed, words, checked, CallKind::kSubmission, call);
  }
  const Status status = managed.pins().pin(words, kUnordered);
  return status == Status::kOk ? call() : managed.failure(status, CallKind::kSubmission);
}

/// Stands for what an operation that does not fit on the device could do instead: nothing.
struct NoOtherWay {};

/// Makes the buffers of `used` resident, calls the driver through `call`, and ends their use.
///
/// Waits only when a buffer is not mapped yet. On a stream that events cannot order it does what
/// submit_unordered() says. `otherwise`: called instead where the buffers do not fit on the device
/// together, about which nothing is told then.
/// @return what was called returned, or why the buffers could not be made resident.
template <typename Call, typename Otherwise = NoOtherWay>
CUresult submit_using(const UsedWords& used, StreamHandle stream, const Call& call,
                      const Otherwise& otherwise = {}) noexcept {
  constexpr bool kHasOtherWay = !std::is_same_v<Otherwise, NoOtherWay>;
  if (used.empty()) return call();
  if (used.reads().failed() || used.writes().failed()) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  ManagedContext& managed = *used.managed();
  ResidencyManager& residency = managed.residency();
  // All in one use: an operation that held some and waited for others could wait for itself. What
  // is only read is then written back as well when it is evicted.
  WordList words;
  for (const WordList* const list : {&used.reads(), &used.writes()}) {
    for (const std::uint64_t word : list->words()) words.add(word);
  }
  if (words.failed()) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  if (!managed.can_order(stream)) {
    return submit_unordered(managed, words.words(), words.words(), stream, call);
  }
  UseToken token;
  const bool writes = !used.writes().empty();
  const Status status = traced_wait(managed.trace(), TraceWait::kLaunch, [&] {
    return residency.begin_use(words.words(), writes, stream, token, /*may_shrink=*/kHasOtherWay);
  });
  if constexpr (kHasOtherWay) {
    const bool does_not_fit =
        status == Status::kWorkingSetTooLarge || status == Status::kOutOfDeviceMemory;
    if (does_not_fit) return otherwise();
  }
  if (status != Status::kOk) return managed.failure(status, CallKind::kSubmission);
  trace_use(managed, token, writes, stream);
  const CUresult result = call();
  residency.end_use(token, stream, result == CUDA_SUCCESS);
  return result;
}

/// Pins the buffers of `named` until they are freed, then calls the driver through `call`.
/// `function` is for the log.
template <typename Call>
CUresult submit_pinning(const NamedWords& named, const char* function, const Call& call) noexcept {
  if (named.words().empty()) return call();
  if (named.words().failed()) return CUDA_ERROR_OUT_OF_MEMORY;
  const Status status = named.managed()->pins().pin(named.words().words(), function);
  if (status != Status::kOk) return named.managed()->failure(status, CallKind::kAllocation);
  return call();
}

/// Answers for a function that cannot be supported under superpipe.
inline CUresult refused(const char* function) noexcept {
  log_line(LogLevel::kWarning, function);
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace superpipe

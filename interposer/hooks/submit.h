// Submitting operations that name managed buffers.
#pragma once

#include "interposer/driver/streams.h"
#include "interposer/hooks/named_words.h"
#include "interposer/hooks/traced.h"
#include "interposer/log.h"
#include "interposer/managed_context.h"

namespace superpipe {

/// Makes the buffers of `used` resident, calls the driver through `call`, and ends their use.
///
/// Waits only when a buffer is not mapped yet. On a stream that events cannot order (see
/// ManagedContext::can_order) the buffers are pinned instead, until they are freed.
/// @return what `call` returned, or why the buffers could not be made resident.
template <typename Call>
CUresult submit_using(const UsedWords& used, StreamHandle stream, const Call& call) noexcept {
  if (used.empty()) return call();
  if (used.reads().failed() || used.writes().failed()) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  ManagedContext& managed = *used.managed();
  if (!managed.can_order(stream)) {
    for (const WordList* const list : {&used.reads(), &used.writes()}) {
      const Status status = managed.pins().pin(list->words(), "used where events cannot order it");
      if (status != Status::kOk) return managed.failure(status, CallKind::kSubmission);
    }
    return call();
  }
  ResidencyManager& residency = managed.residency();
  // All in one use: an operation that held some and waited for others could wait for itself. What
  // is only read is then written back as well when it is evicted.
  WordList words;
  for (const WordList* const list : {&used.reads(), &used.writes()}) {
    for (const std::uint64_t word : list->words()) words.add(word);
  }
  if (words.failed()) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  UseToken token;
  const bool writes = !used.writes().empty();
  const Status status = residency.begin_use(words.words(), writes, stream, token);
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

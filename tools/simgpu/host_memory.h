// What the calls of a library's C interface do where host memory runs out: no exception leaves
// them, and the program's places stay as they are.
#pragma once

#include <exception>
#include <new>

namespace simgpu {

/// What `call` answers, or `otherwise` if it throws, as it does for a count that has no sense.
template <typename Answer, typename Call>
Answer answer_or(Answer otherwise, const Call& call) noexcept {
  try {
    return call();
  } catch (const std::exception&) {
    return otherwise;
  }
}

/// Gives the program a copy of `made`, which is its own then. @return false, and `*target` stays as
/// it is, without host memory for it.
template <typename Kind>
[[nodiscard]] bool give_copy(Kind** target, const Kind& made = {}) noexcept {
  auto* const created = new (std::nothrow) Kind(made);
  if (created == nullptr) return false;
  *target = created;
  return true;
}

}  // namespace simgpu

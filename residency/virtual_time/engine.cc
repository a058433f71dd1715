#include "residency/virtual_time/engine.h"

#include <algorithm>

namespace superpipe::virtual_time {

Engine::Span Engine::reserve(Time ready, Time length) {
  Time begin = ready;
  auto next = spans_.begin();
  for (; next != spans_.end(); ++next) {
    if (begin + length <= next->begin) break;
    begin = std::max(begin, next->end);
  }
  const Span span{begin, begin + length};
  spans_.insert(next, span);
  busy_ += length;
  return span;
}

void Engine::forget_before(Time moment) {
  while (!spans_.empty() && spans_.front().end <= moment) spans_.pop_front();
}

}  // namespace superpipe::virtual_time

#include "tests/residency/fake_streams.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace superpipe::testing {

FakeStreams::Stream* FakeStreams::find(StreamHandle handle) {
  const auto found = streams_.find(handle);
  return found != streams_.end() ? &found->second : nullptr;
}

void FakeStreams::enqueue(Stream& stream, Operation operation) {
  stream.queue.push_back(std::move(operation));
  if (eager_) {
    while (advance_one()) {
    }
  } else {
    advance_some();
  }
}

bool FakeStreams::advance_one() {
  std::vector<Stream*> busy;
  for (auto& [handle, stream] : streams_) {
    if (!stream.queue.empty()) busy.push_back(&stream);
  }
  std::shuffle(busy.begin(), busy.end(), random_);
  return std::any_of(busy.begin(), busy.end(),
                     [this](Stream* stream) { return run_head(*stream); });
}

bool FakeStreams::run_head(Stream& stream) {
  Operation& head = stream.queue.front();
  switch (head.kind) {
    case Operation::Kind::kWork: {
      const std::function<void()> work = std::move(head.work);
      stream.queue.pop_front();
      work();
      return true;
    }
    case Operation::Kind::kRecord:
      head.recording->complete = true;
      break;
    case Operation::Kind::kWait:
      if (!head.recording->complete) return false;
      break;
    case Operation::Kind::kHostFunction:
      if (!host_functions_released_) return false;
      break;
  }
  stream.queue.pop_front();
  return true;
}

void FakeStreams::advance_some() {
  if (random_() % 4 != 0) return;
  for (std::uint64_t n = random_() % 6; n > 0 && advance_one(); --n) {
  }
}

}  // namespace superpipe::testing

// The streams of a fake device: queues of work that runs when somebody lets it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>

#include "residency/device_memory.h"

namespace superpipe::testing {

/// Which stream advances is drawn at random from a seed. Not thread-safe: the fake device locks.
class FakeStreams {
 public:
  /// One recording of an event. Whoever waits, waits for the recording that was the last then.
  struct Recording {
    bool complete = false;
  };
  using RecordingRef = std::shared_ptr<Recording>;

  struct Operation {
    enum class Kind { kWork, kRecord, kWait, kHostFunction } kind;
    std::function<void()> work;  ///< of kWork
    RecordingRef recording;      ///< of kRecord and kWait
  };
  struct Stream {
    bool own = false;  ///< the manager's, not the program's
    bool capturing = false;
    std::deque<Operation> queue;
  };

  /// `eager`: all that can run does so when it is enqueued.
  FakeStreams(std::uint64_t seed, bool eager) : random_(seed), eager_(eager) {}

  void add(StreamHandle handle, bool own) { streams_[handle].own = own; }
  void remove(StreamHandle handle) { streams_.erase(handle); }
  /// Null: there is none.
  [[nodiscard]] Stream* find(StreamHandle handle);

  void enqueue(Stream& stream, Operation operation);
  /// Lets host functions that were enqueued return, until `released` is false again.
  void release_host_functions(bool released) { host_functions_released_ = released; }

  /// Runs the head of one random stream that can go on. @return false if none can.
  bool advance_one();
  /// Mostly runs nothing, sometimes a lot: streams drift apart.
  void advance_some();

 private:
  bool run_head(Stream& stream);

  std::mt19937_64 random_;
  const bool eager_;
  std::map<StreamHandle, Stream> streams_;
  bool host_functions_released_ = false;
};

}  // namespace superpipe::testing

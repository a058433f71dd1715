// Random programs on the driver API that know nothing of superpipe. Each prints a digest of all
// that it copied out, so that a run under superpipe can be compared with one without, line by line.
//
//     random_device_program [--seed N] [--programs N] [--steps N] [--leave HOW]
//
// The same seed is the same program: allocations (sync and stream-ordered), copies of every kind,
// memsets, kernels and passes over buffers on several streams, ordered by events where they touch
// the same bytes and nowhere else. --leave pending, exit, thread or at-once ends the process with
// work still queued: from main, by exit(), by exit() on another thread, by _exit().
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/gpu/device.h"
#include "tests/gpu/kernels.h"

namespace gpu_test {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kMostLiveBytes = 48 * kMiB;
constexpr std::size_t kMostBufferBytes = 4 * kMiB;
constexpr std::size_t kStreams = 4;  // the first is the default stream

/// SplitMix64 (Steele, Lea, Flood, 2014): the same numbers everywhere.
class Random {
 public:
  explicit Random(Word seed) : state_(seed) {}
  Word next() {
    state_ += 0x9E3779B97F4A7C15U;
    Word z = state_;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31U);
  }
  /// A number below `bound`.
  std::size_t below(std::size_t bound) { return next() % bound; }
  bool chance(std::size_t percent) { return below(100) < percent; }

 private:
  Word state_;
};

/// A digest of all that a program copied out, in the order in which it did.
class Digest {
 public:
  void add(const std::vector<Word>& words) {
    for (const Word word : words) value_ = (value_ ^ word) * 0x100000001B3U + (value_ >> 32U);
  }
  [[nodiscard]] Word value() const { return value_; }

 private:
  Word value_ = 0xCBF29CE484222325U;
};

struct Buffer {
  CUdeviceptr address = 0;
  std::size_t words = 0;
  bool stream_ordered = false;
  std::size_t writer = 0;                   // stream of the last write
  std::array<bool, kStreams> readers = {};  // streams that read it since
};

struct Pinned {
  Word* words = nullptr;
  bool busy = false;        // part of a copy that may not have run yet
  std::size_t to_read = 0;  // words that a copy brings here
};

class Program {
 public:
  Program(Word seed, std::uint64_t steps) : random_(seed), steps_(steps) {
    for (std::size_t i = 1; i < kStreams; ++i) {
      CHECK(cuStreamCreate(&streams_[i], CU_STREAM_NON_BLOCKING));
    }
    for (Pinned& slot : pinned_) {
      CHECK(cuMemHostAlloc(reinterpret_cast<void**>(&slot.words), kMostBufferBytes, 0));
    }
  }

  Word run() {
    for (std::size_t i = 0; i < 8; ++i) allocate();
    for (std::uint64_t i = 0; i < steps_; ++i) step();
    drain();
    for (const Buffer& buffer : buffers_) read_now(buffer);
    return digest_.value();
  }

  /// Queues work on every stream and waits for none of it.
  void leave_work_pending() {
    for (int round = 0; round < 20; ++round) {
      for (std::size_t stream = 1; stream < kStreams; ++stream) mix(stream);
    }
  }

  /// Gives back all that the program took; not the work of a program that leaves it pending.
  void clean_up() {
    while (!buffers_.empty()) free_buffer(buffers_.size() - 1);
    CHECK(cuCtxSynchronize());
    for (const Pinned& slot : pinned_) CHECK(cuMemFreeHost(slot.words));
    for (std::size_t i = 1; i < kStreams; ++i) CHECK(cuStreamDestroy(streams_[i]));
  }

 private:
  void step() {
    const std::size_t stream = random_.below(kStreams);
    const std::size_t what = random_.below(100);
    if (what < 12) {
      allocate();
    } else if (what < 18) {
      if (buffers_.size() > 3) free_buffer(random_.below(buffers_.size()));
    } else if (what < 48) {
      mix(stream);
    } else if (what < 56) {
      pass(stream);
    } else if (what < 62) {
      set(stream);
    } else if (what < 74) {
      copy_in(stream);
    } else if (what < 82) {
      copy_across(stream);
    } else if (what < 96) {
      copy_out(stream);
    } else {
      random_.chance(50) ? drain() : CHECK(cuStreamSynchronize(streams_[stream]));
    }
  }

  std::vector<Word> content(std::size_t words) {
    std::vector<Word> values(words);
    Random random(random_.next());
    for (Word& value : values) value = random.next();
    return values;
  }

  Buffer& any() { return buffers_[random_.below(buffers_.size())]; }

  /// Makes what `stream` does next run behind what `other` has queued so far.
  void follow(std::size_t stream, std::size_t other) {
    if (stream == other) return;
    CUevent event = nullptr;
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventRecord(event, streams_[other]));
    CHECK(cuStreamWaitEvent(streams_[stream], event, 0));
    CHECK(cuEventDestroy(event));
  }

  void before_read(std::size_t stream, Buffer& buffer) {
    follow(stream, buffer.writer);
    buffer.readers[stream] = true;
  }

  void before_write(std::size_t stream, Buffer& buffer) {
    follow(stream, buffer.writer);
    for (std::size_t i = 0; i < kStreams; ++i) {
      if (buffer.readers[i]) follow(stream, i);
    }
    buffer.writer = stream;
    buffer.readers = {};
  }

  void allocate() {
    std::size_t live = 0;
    for (const Buffer& buffer : buffers_) live += buffer.words * sizeof(Word);
    Buffer buffer;
    // Some below a mebibyte, which pass through; sizes that are no whole number of pages.
    const std::size_t bytes = random_.chance(15) ? 4096 + random_.below(kMiB / 2)
                                                 : kMiB + random_.below(kMostBufferBytes - kMiB);
    buffer.words = bytes / sizeof(Word);
    if (live + bytes > kMostLiveBytes) return;
    const std::size_t stream = random_.below(kStreams);
    buffer.stream_ordered = random_.chance(40);
    buffer.writer = stream;
    if (buffer.stream_ordered) {
      CHECK(cuMemAllocAsync(&buffer.address, buffer.words * sizeof(Word), streams_[stream]));
    } else {
      CHECK(cuMemAlloc(&buffer.address, buffer.words * sizeof(Word)));
    }
    // What was never written may read as anything.
    if (random_.chance(50)) {
      const std::vector<Word> values = content(buffer.words);
      CHECK(cuMemcpyHtoDAsync(buffer.address, values.data(), buffer.words * sizeof(Word),
                              streams_[stream]));
    } else {
      CHECK(cuMemsetD32Async(buffer.address, static_cast<unsigned>(random_.next()),
                             buffer.words * 2, streams_[stream]));
    }
    buffers_.push_back(buffer);
  }

  void free_buffer(std::size_t index) {
    Buffer buffer = buffers_[index];
    buffers_.erase(buffers_.begin() + static_cast<std::ptrdiff_t>(index));
    if (buffer.stream_ordered) {
      const std::size_t stream = random_.below(kStreams);
      before_write(stream, buffer);
      CHECK(cuMemFreeAsync(buffer.address, streams_[stream]));
    } else {
      CHECK(cuMemFree(buffer.address));  // waits by itself for what uses it
    }
  }

  void launch_mix(std::size_t stream, Buffer& out, Buffer& first, Buffer& second) {
    before_read(stream, first);
    before_read(stream, second);
    before_write(stream, out);
    static const CUfunction plain = kernel("mix");
    static const CUfunction with_struct = kernel("mix_struct");
    Mix mix{random_.next(), out.words, first.words, second.words, nullptr, nullptr, nullptr};
    mix.out = reinterpret_cast<Word*>(out.address);            // NOLINT(performance-no-int-to-ptr)
    mix.first = reinterpret_cast<const Word*>(first.address);  // NOLINT(performance-no-int-to-ptr)
    mix.second =
        reinterpret_cast<const Word*>(second.address);  // NOLINT(performance-no-int-to-ptr)
    void* in_struct[] = {&mix};
    void* in_words[] = {&mix.out,         &mix.first,        &mix.second, &mix.out_words,
                        &mix.first_words, &mix.second_words, &mix.seed};
    const bool as_struct = random_.chance(30);
    CHECK(cuLaunchKernel(as_struct ? with_struct : plain, 128, 1, 1, 256, 1, 1, 0, streams_[stream],
                         as_struct ? in_struct : in_words, nullptr));
  }

  void mix(std::size_t stream) {
    Buffer& out = any();
    Buffer* first = &any();
    Buffer* second = &any();
    // A kernel that reads what its other threads write has no one result.
    if (first == &out || second == &out) return;
    launch_mix(stream, out, *first, *second);
  }

  /// Passes over some buffers in one order, as a model's layers are used: what policies learn from.
  void pass(std::size_t stream) {
    const std::size_t state = random_.below(buffers_.size());
    const std::size_t passes = 2 + random_.below(3);
    for (std::size_t pass = 0; pass < passes; ++pass) {
      for (std::size_t i = 0; i < buffers_.size(); ++i) {
        if (i != state) launch_mix(stream, buffers_[state], buffers_[i], buffers_[i]);
      }
    }
  }

  /// A part of a buffer: its first word, and how many.
  std::pair<std::size_t, std::size_t> part_of(const Buffer& buffer) {
    if (random_.chance(30)) return {0, buffer.words};
    const std::size_t begin = random_.below(buffer.words);
    return {begin, 1 + random_.below(buffer.words - begin)};
  }

  void set(std::size_t stream) {
    Buffer& buffer = any();
    const auto [begin, words] = part_of(buffer);
    before_write(stream, buffer);
    const CUdeviceptr address = buffer.address + begin * sizeof(Word);
    if (random_.chance(50)) {
      CHECK(cuMemsetD8Async(address, static_cast<unsigned char>(random_.next()),
                            words * sizeof(Word), streams_[stream]));
    } else {
      CHECK(cuMemsetD32Async(address, static_cast<unsigned>(random_.next()), words * 2,
                             streams_[stream]));
    }
  }

  void copy_in(std::size_t stream) {
    Buffer& buffer = any();
    const auto [begin, words] = part_of(buffer);
    const std::vector<Word> values = content(words);
    const CUdeviceptr address = buffer.address + begin * sizeof(Word);
    const std::size_t bytes = words * sizeof(Word);
    switch (random_.below(3)) {
      case 0:
        before_write(0, buffer);
        CHECK(cuMemcpyHtoD(address, values.data(), bytes));
        break;
      case 1:  // pageable: read before the call returns
        before_write(stream, buffer);
        CHECK(cuMemcpyHtoDAsync(address, values.data(), bytes, streams_[stream]));
        break;
      default: {
        Pinned& slot = free_slot();
        std::copy(values.begin(), values.end(), slot.words);
        slot.busy = true;
        before_write(stream, buffer);
        CHECK(cuMemcpyHtoDAsync(address, slot.words, bytes, streams_[stream]));
      }
    }
  }

  void copy_across(std::size_t stream) {
    Buffer& from = any();
    Buffer& to = any();
    if (&from == &to) return;
    const auto [begin, words] = part_of(from);
    const std::size_t count = std::min(words, to.words);
    before_read(stream, from);
    before_write(stream, to);
    const CUdeviceptr target = to.address + random_.below(to.words - count + 1) * sizeof(Word);
    const CUdeviceptr source = from.address + begin * sizeof(Word);
    if (random_.chance(70)) {
      CHECK(cuMemcpyDtoDAsync(target, source, count * sizeof(Word), streams_[stream]));
    } else {
      CHECK(cuMemcpyAsync(target, source, count * sizeof(Word), streams_[stream]));
    }
  }

  void copy_out(std::size_t stream) {
    Buffer& buffer = any();
    const auto [begin, words] = part_of(buffer);
    const CUdeviceptr address = buffer.address + begin * sizeof(Word);
    const std::size_t bytes = words * sizeof(Word);
    if (random_.chance(50)) {
      Pinned& slot = free_slot();
      before_read(stream, buffer);
      CHECK(cuMemcpyDtoHAsync(slot.words, address, bytes, streams_[stream]));
      slot.busy = true;
      slot.to_read = words;
      return;
    }
    std::vector<Word> values(words);
    if (random_.chance(50)) {
      before_read(0, buffer);
      CHECK(cuMemcpyDtoH(values.data(), address, bytes));
    } else {
      before_read(stream, buffer);
      CHECK(cuMemcpyDtoHAsync(values.data(), address, bytes, streams_[stream]));
      CHECK(cuStreamSynchronize(streams_[stream]));
    }
    digest_.add(values);
  }

  void read_now(const Buffer& buffer) {
    std::vector<Word> values(buffer.words);
    CHECK(cuMemcpyDtoH(values.data(), buffer.address, buffer.words * sizeof(Word)));
    digest_.add(values);
  }

  /// Waits for everything, and reads what arrived in pinned memory, in the order of the copies.
  void drain() {
    CHECK(cuCtxSynchronize());
    for (std::size_t i = 0; i < next_slot_; ++i) {
      Pinned& slot = pinned_[i];
      digest_.add({slot.words, slot.words + slot.to_read});
      slot.busy = false;
      slot.to_read = 0;
    }
    next_slot_ = 0;
  }

  Pinned& free_slot() {
    if (next_slot_ == pinned_.size()) drain();
    return pinned_[next_slot_++];
  }

  Random random_;
  std::uint64_t steps_;
  std::array<CUstream, kStreams> streams_ = {};
  std::vector<Buffer> buffers_;
  std::array<Pinned, 6> pinned_ = {};
  std::size_t next_slot_ = 0;
  Digest digest_;
};

constexpr int kLeftAsAsked = 17;  // the exit code of every --leave but "pending"

[[noreturn]] void leave(const std::string& how) {
  std::fflush(stdout);
  if (how == "at-once") _exit(kLeftAsAsked);
  if (how == "thread") {
    std::thread([] { std::exit(kLeftAsAsked); }).join();
  }
  std::exit(kLeftAsAsked);
}

int run(int argc, char** argv) {
  const Word first = number_option(argc, argv, "--seed", 1);
  const std::uint64_t programs = number_option(argc, argv, "--programs", 1);
  const std::uint64_t steps = number_option(argc, argv, "--steps", 40);
  const std::string how = text_option(argc, argv, "--leave", "");
  if (!how.empty() && how != "pending" && how != "exit" && how != "thread" && how != "at-once") {
    std::fputs("--leave takes pending, exit, thread or at-once\n", stderr);
    return 2;
  }
  open_device();
  for (Word seed = first; seed < first + programs; ++seed) {
    Program program(seed, steps);
    std::printf("program %" PRIu64 " %016" PRIx64 "\n", seed, program.run());
    std::fflush(stdout);
    if (!how.empty() && seed + 1 == first + programs) {
      program.leave_work_pending();
      if (how == "pending") return 0;
      leave(how);
    }
    program.clean_up();
  }
  return 0;
}

}  // namespace
}  // namespace gpu_test

int main(int argc, char** argv) { return gpu_test::run(argc, argv); }

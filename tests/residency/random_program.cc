#include "tests/residency/random_program.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <utility>

namespace superpipe::testing {

namespace {

using Content = std::vector<std::byte>;

/// Calls `body` with each 8 bytes of `content` as a number, the last ones padded with zeroes, and
/// puts back what it returns.
template <typename Body>
void for_each_word(Content& content, Body body) {
  for (std::size_t at = 0; at < content.size(); at += sizeof(std::uint64_t)) {
    const std::size_t size = std::min(sizeof(std::uint64_t), content.size() - at);
    std::uint64_t word = 0;
    std::memcpy(&word, content.data() + at, size);
    word = body(word);
    std::memcpy(content.data() + at, &word, size);
  }
}

/// What the kernel of the tests makes of its buffers: every byte read matters, every byte changes.
std::vector<Content> mix(std::uint64_t kernel, std::vector<Content> buffers) {
  std::uint64_t hash = kernel * 0x9E3779B97F4A7C15U + 1;
  for (Content& buffer : buffers) {
    for_each_word(buffer, [&hash](std::uint64_t word) {
      // Each step is one to one, so that no difference is lost; the shift brings high bytes down.
      hash = (hash ^ word) * 0x9E3779B97F4A7C15U;
      hash ^= hash >> 32;
      return word;
    });
  }
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    std::uint64_t state = hash + i;
    for_each_word(buffers[i], [&state](std::uint64_t word) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      return word ^ state ^ (state >> 32);
    });
  }
  return buffers;
}

class Program {
 public:
  explicit Program(const ProgramOptions& options)
      : options_(options),
        random_(options.seed),
        device_({.seed = options.seed * 7919 + 1,
                 .capacity = options.device_capacity,
                 .total = options.most_others > Bytes{} ? options.device_capacity
                                                        : Bytes{std::uint64_t{1} << 40},
                 .sabotage = options.sabotage}) {}

  ProgramOutcome run() {
    ResidencyOptions residency;
    residency.policy = options_.policy;
    budget_ = options_.policy.budget.value_or(Bytes{});
    residency.policy_waits = options_.policy_waits;
    residency.piece_size = options_.piece_size;
    residency.arena_size = Bytes{64 << 20};
    residency.host_limit = options_.host_limit;
    residency.wait_limit = std::chrono::milliseconds{400};
    residency.zero_fill = options_.zero_fill;
    residency.compares_digests = options_.compares_digests;
    residency.maps_early = options_.maps_early;
    residency.now = [this] { return device_.now(); };
    residency.worker_thread = false;
    residency.record_timeline = options_.record_timeline;
    auto created = ResidencyManager::create(device_, residency);
    if (!created.ok()) {
      mistake("the manager could not be created");
      return std::move(outcome_);
    }
    manager_ = std::move(*created);
    for (int i = 0; i < options_.streams; ++i) streams_.push_back(device_.program_stream());
    const int calls_before = options_.fault == Call::kCount ? 0 : device_.calls(options_.fault);
    if (options_.fault != Call::kCount) {
      device_.fail(options_.fault, options_.fault_at, options_.fault_status,
                   options_.fault_repeats);
    }
    AllocationFaults::mine() = {0, options_.allocation_fault_at, options_.allocation_faults, 0};
    if (options_.layered) {
      run_layers();
    } else {
      for (int i = 0; i < options_.steps; ++i) step();
    }
    if (options_.fault != Call::kCount) {
      outcome_.fault_hits = device_.calls(options_.fault) - calls_before;
      device_.clear_faults();
    }
    outcome_.allocations = AllocationFaults::mine().count;
    AllocationFaults::mine() = {};
    // The program goes on after the fault: everything must still be there, and able to move.
    if (options_.allocation_fault_at != 0) {
      for (std::size_t i = 0; i < buffers_.size(); ++i) {
        const int refused = outcome_.refused;
        if (buffers_[i].defined) launch(7, {i});
        if (outcome_.refused != refused) mistake("a launch was refused when memory was back");
      }
    }
    for (std::size_t i = 0; i < buffers_.size(); ++i) copy_out(i, true);
    device_.drain();
    while (manager_->run_worker_once()) device_.drain();
    check_limit();
    if (options_.moving_budget) check_pages_fit();
    outcome_.stats = manager_->stats();
    while (!buffers_.empty()) free(buffers_.size() - 1);
    device_.drain();  // a context goes when its work is done
    manager_.reset();
    for (const std::string& violation : device_.violations()) mistake(violation);
    if (options_.fault == Call::kCount && options_.sabotage.events_always_complete == false) {
      if (device_.device_bytes() != Bytes{}) mistake("pages left behind");
      if (device_.mapped_ranges() != 0) mistake("mappings left behind");
      if (device_.pinned_ranges() != 0) mistake("pinned memory left behind");
      if (device_.live_events() != 0) mistake("events left behind");
    }
    return std::move(outcome_);
  }

 private:
  struct Live {
    Address address;
    std::size_t size;
    Content expected;
    Content former;                // what it held before a launch last changed it
    bool defined;                  // every byte has a value that the program may rely on
    std::set<StreamHandle> users;  // streams whose work on it is not known to be ordered yet
  };

  /// The manager, for one call in which its host allocations count, and may fail.
  class Armed {
   public:
    explicit Armed(ResidencyManager& manager) : manager_(manager) {}
    ResidencyManager* operator->() { return &manager_; }

   private:
    ResidencyManager& manager_;
    Arming arming_{1};
  };
  Armed armed() { return Armed(*manager_); }
  [[nodiscard]] bool refusals_are_mistakes() const {
    return options_.fault == Call::kCount && AllocationFaults::mine().first == 0;
  }

  // The manager, for one operation of the program.
  Armed operate() {
    ++outcome_.operations;
    return armed();
  }

  void mistake(const std::string& what) {
    if (outcome_.mistakes.size() < 20) outcome_.mistakes.push_back(what);
  }

  std::uint64_t draw(std::uint64_t below) { return random_() % below; }
  StreamHandle draw_stream() { return streams_[draw(streams_.size())]; }

  // What a correct program does before it uses a buffer on a stream: order the stream behind
  // others.
  void order(Live& buffer, StreamHandle stream) {
    for (const StreamHandle other : buffer.users) {
      if (other != stream) device_.order_after(stream, other);
    }
    buffer.users = {stream};
  }

  void check_limit() {
    if (options_.policy.budget && options_.fault == Call::kCount &&
        device_.peak_bytes() > budget_) {
      mistake("over the budget: " + std::to_string(device_.peak_bytes().count()));
    }
  }

  // Another budget, between half and twice the first. Pages may exceed it until they have been
  // evicted, but no page may be created beyond it.
  void change_budget() {
    const std::uint64_t first = options_.policy.budget.value_or(Bytes{12 * 4096}).count() / 4096;
    const Bytes budget{(first / 2 + draw(first * 3 / 2)) * 4096};
    const BudgetAnswer answer = operate()->set_budget(budget);
    const bool counts_layers = options_.policy.k.has_value();
    const bool moves = options_.policy.kind != PolicyKind::kResident;
    if (counts_layers != (answer == BudgetAnswer::kCountsLayers) ||
        moves == (answer == BudgetAnswer::kNothingMoves)) {
      mistake("the wrong answer to a new budget");
    }
    if (answer != BudgetAnswer::kChanged) return;
    budget_ = budget;
    ++outcome_.budget_changes;
    if (device_.device_bytes() + passthrough_ > budget_) ++outcome_.shrunk_pages;
    device_.forget_peak();
  }

  void change_others() {
    device_.set_others(Bytes{draw(options_.most_others.count() / 4096 + 1) * 4096});
  }

  // When nothing is in use any more, the pages come down to the budget within some samples.
  void check_pages_fit() {
    for (int i = 0; i < 20'000 && device_.device_bytes() + passthrough_ > budget_; ++i) {
      (void)manager_->run_worker_once();
      device_.drain();
    }
    if (options_.policy.budget && options_.fault == Call::kCount &&
        device_.device_bytes() + passthrough_ > budget_) {
      mistake("pages stay over the budget: " + std::to_string(device_.device_bytes().count()) +
              " of " + std::to_string(budget_.count()));
    }
  }

  // A page's worth of the device goes to the driver, or comes back: the manager is told of the one
  // and has to ask the device about the other.
  void change_passthrough(bool grows) {
    constexpr Bytes kStep{4096};
    if (grows && operate()->begin_passthrough_allocation(kStep)) {
      passthrough_ += kStep;
      device_.set_passthrough(passthrough_);
      armed()->end_passthrough_allocation(kStep, true);
    } else if (!grows && passthrough_ > Bytes{}) {
      operate()->begin_passthrough_change(PassthroughChange::kFree);
      passthrough_ -= kStep;
      device_.set_passthrough(passthrough_);
      armed()->end_passthrough_change(PassthroughChange::kFree);
    }
  }

  // What is done to the program from outside.
  void disturb() {
    if (options_.moving_budget && draw(25) == 0) change_budget();
    if (options_.most_others > Bytes{} && draw(10) == 0) change_others();
  }

  void step() {
    disturb();
    const std::uint64_t dice = draw(100);
    if (buffers_.empty() || (dice < 12 && buffers_.size() < 14)) {
      allocate();
    } else if (dice < 16) {
      free(draw(buffers_.size()));
    } else if (dice < 32) {
      const bool is_synchronous = draw(2) == 0;
      copy_in(draw(buffers_.size()), is_synchronous);
    } else if (dice < 46) {
      draw_copy_out();
    } else if (dice < 49) {
      set(draw(buffers_.size()));
    } else if (dice < 51) {
      operate()->trim();
    } else if (dice < 53) {
      // While other processes come and go, nobody can tell exactly what is pass-through.
      if (options_.most_others == Bytes{}) change_passthrough(draw(2) == 0);
    } else if (dice < 56) {
      recreate_stream();
    } else {
      std::vector<std::size_t> chosen;
      const std::uint64_t count = 1 + draw(3);
      for (std::uint64_t i = 0; i < count; ++i) {
        const std::size_t index = draw(buffers_.size());
        if (std::find(chosen.begin(), chosen.end(), index) == chosen.end()) chosen.push_back(index);
      }
      launch(draw(5), chosen);
    }
    for (std::uint64_t n = draw(4); n > 0; --n) (void)armed()->run_worker_once();
    run_stocker();
    check_limit();
  }

  // Now and then so much time has passed that idle slabs are unpinned, one in each round.
  void run_stocker() {
    constexpr int kOften = 8;
    if (++stocker_rounds_ % kOften == 0) device_.let_time_pass(std::chrono::minutes{1});
    (void)armed()->run_stocker_once();
  }

  // Layers of two buffers, passes in order, a transient beside: what the policies are made for.
  void run_layers() {
    const std::size_t layers = 5 + draw(4);
    for (std::size_t i = 0; i < 2 * layers; ++i) {
      for (int tries = 0; buffers_.size() <= i && tries < 50; ++tries) allocate(1 + i % 2);
      if (buffers_.size() <= i) return;  // nothing can be allocated any more
      copy_in(buffers_.size() - 1, true, true);
    }
    const int passes = options_.steps / static_cast<int>(layers);
    for (int pass = 0; pass < passes; ++pass) {
      for (std::size_t layer = 0; layer < layers; ++layer) {
        launch(layer, {2 * layer});
        disturb();
        if (draw(30) == 0) draw_copy_out();
        launch(layer + 100, {2 * layer, 2 * layer + 1});
        for (std::uint64_t n = draw(6); n > 0; --n) (void)armed()->run_worker_once();
        run_stocker();
        check_limit();
      }
    }
  }

  void allocate(std::uint64_t pages = 0) {
    if (pages == 0) pages = 1 + draw(3);
    const std::size_t size = pages * 4096 - (draw(2) == 0 ? 0 : draw(2000));
    const bool ordered = draw(2) == 0;
    const StreamHandle stream = draw_stream();
    const auto address = operate()->allocate(
        Bytes{size}, ordered ? std::optional<StreamHandle>{stream} : std::nullopt);
    if (!address.ok()) {
      ++outcome_.refused;
      return;
    }
    Live buffer{*address, size, Content(size), {}, options_.zero_fill, {}};
    if (ordered) buffer.users.insert(stream);
    for (const Live& other : buffers_) {
      if (other.address < *address + size && *address < other.address + other.size) {
        mistake("an address was given out twice");
      }
    }
    buffers_.push_back(std::move(buffer));
  }

  void free(std::size_t index) {
    Live& buffer = buffers_[index];
    Status status = Status::kOk;
    if (draw(2) == 0) {
      for (const StreamHandle stream : streams_) device_.synchronize(stream);
      status = operate()->free(buffer.address);
    } else {
      const StreamHandle stream = draw_stream();
      order(buffer, stream);
      status = operate()->free_async(buffer.address, stream);
    }
    if (status != Status::kOk) {
      ++outcome_.refused;
      if (refusals_are_mistakes()) mistake("a free was refused");
      device_.clear_faults();
      AllocationFaults::mine().how_many = 0;
      for (const StreamHandle stream : streams_) device_.synchronize(stream);
      const Status again = armed()->free(buffer.address);
      if (options_.fault == Call::kCount && again != Status::kOk)
        mistake("a free was refused twice");
    }
    buffers_.erase(buffers_.begin() + static_cast<std::ptrdiff_t>(index));
  }

  void copy_in(std::size_t index, bool synchronous, bool whole = false) {
    Live& buffer = buffers_[index];
    whole = whole || !buffer.defined || draw(3) == 0;
    const std::size_t offset = whole ? 0 : draw(buffer.size);
    const std::size_t size = whole ? buffer.size : 1 + draw(buffer.size - offset);
    auto source = std::make_shared<Content>(size);
    for_each_word(*source, [this](std::uint64_t) { return random_(); });
    const StreamHandle stream = draw_stream();
    order(buffer, stream);
    if (synchronous) device_.synchronize(stream);
    for (std::size_t done = 0; done < size;) {
      const std::size_t part =
          copy_part_in(buffer, offset + done, *source, done, stream, synchronous);
      if (part == 0) return;
      done += part;
    }
    buffer.defined = buffer.defined || whole;
  }

  /// Copies what goes one way of the bytes of `source` from `done` on to `offset` of the buffer.
  /// @return how many bytes that were; 0: the copy was refused.
  std::size_t copy_part_in(Live& buffer, std::size_t offset, const Content& source,
                           std::size_t done, StreamHandle stream, bool synchronous) {
    UseToken token;
    const Address address = buffer.address + offset;
    const auto route =
        operate()->begin_copy_in(address, Bytes{source.size() - done}, stream, token);
    if (!route.ok()) {
      ++outcome_.refused;
      return 0;
    }
    const auto begin = source.begin() + static_cast<std::ptrdiff_t>(done);
    auto bytes =
        std::make_shared<Content>(begin, begin + static_cast<std::ptrdiff_t>(route->size.count()));
    void* const host = route->host;
    const bool copies_itself = synchronous && host != nullptr;
    if (copies_itself) {
      device_.synchronize(stream);
      std::memcpy(host, bytes->data(), bytes->size());
    } else {
      device_.submit(stream, [this, host, address, bytes] {
        if (host != nullptr) {
          std::memcpy(host, bytes->data(), bytes->size());
        } else {
          device_.write(address, bytes->size(), bytes->data());
        }
      });
      if (synchronous) device_.synchronize(stream);
    }
    armed()->end_use(token, stream, !copies_itself);
    std::copy(bytes->begin(), bytes->end(),
              buffer.expected.begin() + static_cast<std::ptrdiff_t>(offset));
    return bytes->size();
  }

  // Compilers evaluate the arguments of a call in orders of their own.
  void draw_copy_out() {
    const bool is_synchronous = draw(2) == 0;
    copy_out(draw(buffers_.size()), is_synchronous);
  }

  void copy_out(std::size_t index, bool synchronous) {
    Live& buffer = buffers_[index];
    if (!buffer.defined) return;
    const StreamHandle stream = draw_stream();
    order(buffer, stream);
    if (synchronous) device_.synchronize(stream);
    for (std::size_t done = 0; done < buffer.size;) {
      const std::size_t part = copy_part_out(buffer, done, stream, synchronous);
      if (part == 0) return;
      done += part;
    }
  }

  /// Reads what goes one way of the buffer's bytes from `offset` on, and compares it.
  /// @return how many bytes that were; 0: the copy was refused.
  std::size_t copy_part_out(const Live& buffer, std::size_t offset, StreamHandle stream,
                            bool synchronous) {
    UseToken token;
    const Address address = buffer.address + offset;
    const auto route =
        operate()->begin_copy_out(address, Bytes{buffer.size - offset}, stream, token);
    if (!route.ok()) {
      ++outcome_.refused;
      if (refusals_are_mistakes()) mistake("a copy out was refused");
      return 0;
    }
    const void* const host = route->host;
    const std::size_t size = route->size.count();
    const auto begin = buffer.expected.begin() + static_cast<std::ptrdiff_t>(offset);
    auto expected = std::make_shared<Content>(begin, begin + static_cast<std::ptrdiff_t>(size));
    const auto check = [this, host, address, size, expected] {
      Content got(size);
      if (host != nullptr) {
        std::memcpy(got.data(), host, size);
      } else if (!device_.read(address, size, got.data())) {
        return;
      }
      if (got != *expected) mistake("wrong bytes were read back");
    };
    const bool copies_itself = synchronous && host != nullptr;
    if (copies_itself) {
      device_.synchronize(stream);
      check();
    } else {
      device_.submit(stream, check);
      if (synchronous) device_.synchronize(stream);
    }
    armed()->end_use(token, stream, !copies_itself);
    return size;
  }

  // A memset: an operation that policy is not told of.
  void set(std::size_t index) {
    Live& buffer = buffers_[index];
    const StreamHandle stream = draw_stream();
    order(buffer, stream);
    UseToken token;
    const std::uint64_t word = buffer.address + draw(buffer.size);
    if (operate()->begin_use({&word, 1}, true, stream, token) != Status::kOk) {
      ++outcome_.refused;
      return;
    }
    const Content value(buffer.size, static_cast<std::byte>(draw(256)));
    device_.submit(stream, [this, address = buffer.address, value] {
      device_.write(address, value.size(), value.data());
    });
    armed()->end_use(token, stream, true);
    buffer.expected = value;
    buffer.defined = true;
  }

  // What a launch does to one of its buffers.
  enum class Effect { kMixes, kReads, kRestores };
  Effect draw_effect(const Live& buffer) {
    if (!options_.compares_digests) return Effect::kMixes;
    const std::uint64_t dice = draw(4);
    if (dice == 0 && buffer.former.size() == buffer.size) return Effect::kRestores;
    return dice < 3 ? Effect::kReads : Effect::kMixes;
  }

  // A buffer of a launch.
  struct Operand {
    std::size_t index;
    Address address;
    std::size_t size;
    Effect effect;
    Content former;  // what is restored, if it is

    // What the launch makes of `content`; `mixed`: what it would be if it were mixed.
    [[nodiscard]] const Content& result(const Content& content, const Content& mixed) const {
      if (effect == Effect::kReads) return content;
      return effect == Effect::kRestores ? former : mixed;
    }
  };

  void launch(std::uint64_t kernel, const std::vector<std::size_t>& chosen) {
    const StreamHandle stream = draw_stream();
    std::vector<std::uint64_t> words{42, 0, ~std::uint64_t{0}};
    std::vector<Operand> operands;
    for (const std::size_t index : chosen) {
      Live& buffer = buffers_[index];
      if (!buffer.defined) continue;
      order(buffer, stream);
      words.push_back(buffer.address + draw(buffer.size));
      words.push_back(buffer.address);
      operands.push_back({index, buffer.address, buffer.size, draw_effect(buffer), buffer.former});
    }
    UseToken token;
    const Status status = operate()->begin_launch(KernelId{kernel}, words, stream, token);
    if (status != Status::kOk) {
      ++outcome_.refused;
      return;
    }
    // Sometimes the driver refuses what was announced.
    if (draw(20) == 0) {
      armed()->end_use(token, stream, false);
      return;
    }
    device_.submit(stream, [this, kernel, operands] {
      std::vector<Content> held;
      for (const Operand& operand : operands) {
        held.emplace_back(operand.size);
        if (!device_.read(operand.address, operand.size, held.back().data())) return;
      }
      const std::vector<Content> mixed = mix(kernel, held);
      for (std::size_t i = 0; i < operands.size(); ++i) {
        if (operands[i].effect == Effect::kReads) continue;
        const Content& result = operands[i].result(held[i], mixed[i]);
        device_.write(operands[i].address, operands[i].size, result.data());
      }
    });
    armed()->end_use(token, stream, true);
    std::vector<Content> held;
    for (const Operand& operand : operands) held.push_back(buffers_[operand.index].expected);
    const std::vector<Content> mixed = mix(kernel, held);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      Live& buffer = buffers_[operands[i].index];
      if (operands[i].effect == Effect::kReads) continue;
      buffer.former = std::exchange(buffer.expected, operands[i].result(held[i], mixed[i]));
    }
  }

  // Destroys a stream with work on it, as a program may, and makes another.
  void recreate_stream() {
    const std::size_t index = draw(streams_.size());
    const StreamHandle old = streams_[index];
    const StreamHandle fresh = device_.program_stream();
    device_.order_after(fresh, old);
    for (Live& buffer : buffers_) {
      if (buffer.users.erase(old) != 0) buffer.users.insert(fresh);
    }
    operate()->on_stream_destroy(old);
    streams_[index] = fresh;
  }

  const ProgramOptions options_;
  std::mt19937_64 random_;
  Bytes passthrough_;
  int stocker_rounds_ = 0;
  Bytes budget_;
  FakeDevice device_;
  std::unique_ptr<ResidencyManager> manager_;
  std::vector<StreamHandle> streams_;
  std::vector<Live> buffers_;
  ProgramOutcome outcome_;
};

}  // namespace

ProgramOutcome run_random_program(const ProgramOptions& options) { return Program(options).run(); }

}  // namespace superpipe::testing

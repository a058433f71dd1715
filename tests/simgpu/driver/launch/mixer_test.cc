// The mixer over memory that is a table: what it reads, where it writes, and what its values depend
// on.
#include "tools/simgpu/driver/launch/mixer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <optional>
#include <set>

namespace simgpu {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::uint64_t kMi = std::uint64_t{1} << 20;

/// Device memory out of blocks at chosen addresses. Reads outside of a block fail the test.
class FakeMemory final : public MixerMemory {
 public:
  std::vector<std::byte>& add(std::uint64_t address, std::size_t size) {
    return blocks_[address] = std::vector<std::byte>(size);
  }
  void reserve(std::uint64_t address, std::uint64_t size) { reserved_[address] = size; }
  void reserve_and_never_map(std::uint64_t address, std::uint64_t size) {
    reserve(address, size);
    never_mapped_.insert(address);
  }

  Place find(std::uint64_t address) const override {
    for (const auto& [base, bytes] : blocks_) {
      if (address >= base && address < base + bytes.size()) {
        return {Kind::kLive, base, base + bytes.size()};
      }
    }
    for (const auto& [base, size] : reserved_) {
      if (address >= base && address < base + size) {
        return {never_mapped_.contains(base) ? Kind::kNeverMapped : Kind::kUnmapped};
      }
    }
    return {};
  }

  void read(std::uint64_t address, std::span<std::byte> target) const override {
    for (const auto& [base, bytes] : blocks_) {
      if (address >= base && address + target.size() <= base + bytes.size()) {
        std::memcpy(target.data(), bytes.data() + (address - base), target.size());
        read_.emplace_back(address, target.size());
        return;
      }
    }
    ADD_FAILURE() << "read outside: " << address << " + " << target.size();
  }

  void write(const MixerWrite& write) {
    for (auto& [base, bytes] : blocks_) {
      if (write.address >= base && write.address + write.size <= base + bytes.size()) {
        std::memcpy(bytes.data() + (write.address - base), write.bytes.data(), write.size);
        return;
      }
    }
    ADD_FAILURE() << "write outside: " << write.address;
  }

  [[nodiscard]] const std::vector<std::pair<std::uint64_t, std::size_t>>& reads() const {
    return read_;
  }

 private:
  std::map<std::uint64_t, std::vector<std::byte>> blocks_;
  std::map<std::uint64_t, std::uint64_t> reserved_;
  std::set<std::uint64_t> never_mapped_;
  mutable std::vector<std::pair<std::uint64_t, std::size_t>> read_;
};

/// Parameters that are all 8 bytes wide.
struct Words {
  explicit Words(const std::vector<std::uint64_t>& values) {
    for (const std::uint64_t value : values) {
      layout.push_back({buffer.size(), sizeof(value)});
      const auto* const bytes = reinterpret_cast<const std::byte*>(&value);
      buffer.insert(buffer.end(), bytes, bytes + sizeof(value));
    }
  }
  std::vector<ParameterLayout> layout;
  std::vector<std::byte> buffer;
};

Mix mix_words(const std::string& name, const std::vector<std::uint64_t>& values,
              const FakeMemory& memory, const std::vector<bool>& is_const = {}) {
  const Words words(values);
  return mix(name, words.layout, words.buffer, is_const, memory);
}

std::vector<std::uint64_t> lanes(const MixerWrite& write) {
  std::vector<std::uint64_t> values(write.size / sizeof(std::uint64_t));
  std::memcpy(values.data(), write.bytes.data(), values.size() * sizeof(std::uint64_t));
  return values;
}

std::vector<std::uint64_t> addresses(const Mix& result) {
  std::vector<std::uint64_t> all;
  for (const MixerWrite& write : result.writes) all.push_back(write.address);
  return all;
}

TEST(Mix, ReadsOneBlockAtTheAddressAndOneEvery64KiBBehindIt) {
  FakeMemory memory;
  memory.add(kMi, 3 * 65536 + 100);
  (void)mix_words("kernel", {kMi + 70}, memory);
  EXPECT_THAT(memory.reads(),
              ElementsAre(std::pair(kMi + 64, 64UL), std::pair(kMi + 65600, 64UL),
                          std::pair(kMi + 131136, 64UL), std::pair(kMi + 196672, 36UL)));
}

TEST(Mix, DependsOnEveryByteThatItReads) {
  FakeMemory memory;
  auto& bytes = memory.add(kMi, 2 * 65536);
  const auto before = lanes(mix_words("kernel", {kMi}, memory).writes.at(0));
  for (const std::size_t at : {0UL, 7UL, 8UL, 63UL, 65536UL, 65599UL}) {
    bytes[at] = std::byte{1};
    EXPECT_NE(lanes(mix_words("kernel", {kMi}, memory).writes.at(0)), before) << at;
    bytes[at] = std::byte{0};
  }
  EXPECT_EQ(lanes(mix_words("kernel", {kMi}, memory).writes.at(0)), before);
}

TEST(Mix, DependsOnWhereAValueLies) {
  FakeMemory memory;
  auto& first = memory.add(kMi, 65536 + 64);
  auto& second = memory.add(2 * kMi, 65536 + 64);
  std::set<std::vector<std::uint64_t>> results;
  for (std::byte* const place : {&first[0], &first[8], &first[65536], &second[0]}) {
    *place = std::byte{42};
    results.insert(lanes(mix_words("kernel", {kMi, 2 * kMi}, memory).writes.at(0)));
    *place = std::byte{0};
  }
  EXPECT_THAT(results, SizeIs(4));
}

TEST(Mix, IsUnchangedByZerosBehindTheData) {
  FakeMemory exact;
  exact.add(kMi, 70000)[5] = std::byte{9};
  FakeMemory rounded;
  rounded.add(kMi, 4 * kMi)[5] = std::byte{9};
  EXPECT_EQ(lanes(mix_words("kernel", {kMi}, exact).writes.at(0)),
            lanes(mix_words("kernel", {kMi}, rounded).writes.at(0)));
}

TEST(Mix, IsUnchangedByTheAddress) {
  FakeMemory here;
  here.add(kMi, 4096)[64] = std::byte{3};
  FakeMemory there;
  there.add(77 * kMi, 4096)[64] = std::byte{3};
  EXPECT_EQ(lanes(mix_words("kernel", {kMi + 64}, here).writes.at(0)),
            lanes(mix_words("kernel", {77 * kMi + 64}, there).writes.at(0)));
}

TEST(Mix, IsUnchangedByNumbersAmongTheParameters) {
  FakeMemory memory;
  memory.add(kMi, 4096);
  EXPECT_EQ(lanes(mix_words("kernel", {kMi, 5}, memory).writes.at(0)),
            lanes(mix_words("kernel", {kMi, 6}, memory).writes.at(0)));
}

TEST(Mix, DependsOnTheKernelsName) {
  FakeMemory memory;
  memory.add(kMi, 4096);
  EXPECT_NE(lanes(mix_words("one", {kMi}, memory).writes.at(0)),
            lanes(mix_words("two", {kMi}, memory).writes.at(0)));
}

TEST(Mix, WritesWordsThatStaySmall) {
  FakeMemory memory;
  memory.add(kMi, 4096)[0] = std::byte{200};
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 200; ++i) {
    const Mix result = mix_words("kernel" + std::to_string(i), {kMi}, memory);
    for (const std::uint64_t lane : lanes(result.writes.at(0))) {
      ASSERT_LE(lane, 255U);
      seen.insert(lane);
    }
  }
  EXPECT_GT(seen.size(), 200U);  // and use the whole range
}

TEST(Mix, WritesAtTheAddressRoundedDown) {
  FakeMemory memory;
  memory.add(kMi, 4096);
  const Mix result = mix_words("kernel", {kMi + 1000}, memory);
  EXPECT_THAT(addresses(result), ElementsAre(kMi + 960));
  EXPECT_EQ(result.writes[0].size, 64U);
}

TEST(Mix, WritesNothingOutsideAnAllocationThatEndsEarly) {
  FakeMemory memory;
  memory.add(kMi, 100);
  const Mix result = mix_words("kernel", {kMi + 80}, memory);
  EXPECT_THAT(addresses(result), ElementsAre(kMi + 64));
  EXPECT_EQ(result.writes[0].size, 36U);
}

TEST(Mix, ChoosesAboutHalfOfThePointersAsOutputsAndAlwaysOne) {
  FakeMemory memory;
  std::vector<std::uint64_t> pointers;
  for (std::uint64_t i = 1; i <= 8; ++i) {
    memory.add(i * kMi, 64);
    pointers.push_back(i * kMi);
  }
  std::size_t outputs = 0;
  constexpr int kKernels = 400;
  for (int i = 0; i < kKernels; ++i) {
    const Mix result = mix_words("kernel" + std::to_string(i), pointers, memory);
    ASSERT_GE(result.writes.size(), 1U);
    outputs += result.writes.size();
  }
  EXPECT_NEAR(static_cast<double>(outputs) / (8.0 * kKernels), 0.5, 0.05);
  for (int i = 0; i < kKernels; ++i) {
    EXPECT_THAT(mix_words("single" + std::to_string(i), {kMi}, memory).writes, SizeIs(1));
  }
}

TEST(Mix, ChoosesTheSameOutputsWhateverTheMemoryHolds) {
  FakeMemory memory;
  auto& bytes = memory.add(kMi, 64);
  memory.add(2 * kMi, 64);
  memory.add(3 * kMi, 64);
  const auto before = addresses(mix_words("kernel", {kMi, 2 * kMi, 3 * kMi}, memory));
  bytes[0] = std::byte{255};
  EXPECT_EQ(addresses(mix_words("kernel", {kMi, 2 * kMi, 3 * kMi}, memory)), before);
}

TEST(Mix, NeverWritesThroughPointersToConst) {
  FakeMemory memory;
  memory.add(kMi, 64);
  memory.add(2 * kMi, 64);
  for (int i = 0; i < 100; ++i) {
    const std::string name = "kernel" + std::to_string(i);
    EXPECT_THAT(addresses(mix_words(name, {kMi, 2 * kMi}, memory, {true, false})),
                ElementsAre(2 * kMi));
    EXPECT_THAT(addresses(mix_words(name, {kMi, 2 * kMi}, memory, {true, true})), IsEmpty());
  }
}

TEST(Mix, IgnoresASignatureOfAnotherLength) {
  FakeMemory memory;
  memory.add(kMi, 64);
  EXPECT_THAT(mix_words("kernel", {kMi}, memory, {true, true}).writes, SizeIs(1));
}

TEST(Mix, ReportsWordsInUnmappedAddressSpaceAndThenWritesNothing) {
  FakeMemory memory;
  memory.add(kMi, 64);
  memory.reserve(8 * kMi, kMi);
  const Mix result = mix_words("kernel", {kMi, 8 * kMi + 24, 9 * kMi}, memory);
  EXPECT_THAT(result.unmapped, ElementsAre(8 * kMi + 24));
  EXPECT_THAT(result.writes, IsEmpty());
}

TEST(Mix, SeesPointersInsideStructsAtMultiplesOfEight) {
  FakeMemory memory;
  memory.add(kMi, 64);
  // struct { int; void*; } at offset 8, and the same address at offset 28, which is no word.
  std::vector<std::byte> buffer(40);
  const std::uint64_t address = kMi;
  std::memcpy(buffer.data() + 16, &address, sizeof(address));
  std::memcpy(buffer.data() + 28, &address, sizeof(address));
  const std::vector<ParameterLayout> layout = {{0, 4}, {8, 16}, {24, 16}};
  EXPECT_THAT(mix("kernel", layout, buffer, {}, memory).writes, SizeIs(1));
}

// What PyTorch hands over: the last member of a struct, a small int, and behind it four bytes that
// nothing covers and that hold half of an old pointer.
TEST(Mix, TakesAWordWhereNothingWasEverMappedForPaddingInAStruct) {
  FakeMemory memory;
  memory.add(kMi, 64);
  memory.reserve_and_never_map(8 * kMi, kMi);
  std::vector<std::byte> buffer(24);
  const std::uint64_t live = kMi;
  const std::uint64_t padding = 8 * kMi + 24;
  std::memcpy(buffer.data(), &live, sizeof(live));
  std::memcpy(buffer.data() + 8, &padding, sizeof(padding));
  const std::vector<ParameterLayout> as_struct = {{0, 16}};
  EXPECT_THAT(mix("kernel", as_struct, buffer, {}, memory).unmapped, IsEmpty());
  EXPECT_THAT(mix("kernel", as_struct, buffer, {}, memory).writes, SizeIs(1));
  // A parameter of eight bytes is a pointer, and one into a struct's once mapped memory is, too.
  const std::vector<ParameterLayout> as_pointers = {{0, 8}, {8, 8}};
  EXPECT_THAT(mix("kernel", as_pointers, buffer, {}, memory).unmapped, ElementsAre(padding));
  memory.reserve(4 * kMi, kMi);
  const std::uint64_t evicted = 4 * kMi;
  std::memcpy(buffer.data() + 8, &evicted, sizeof(evicted));
  EXPECT_THAT(mix("kernel", as_struct, buffer, {}, memory).unmapped, ElementsAre(evicted));
}

TEST(Mix, SeesNoWordAcrossTwoParameters) {
  FakeMemory memory;
  memory.add(kMi, 64);
  std::vector<std::byte> buffer(8);
  const std::uint64_t address = kMi;
  std::memcpy(buffer.data(), &address, sizeof(address));
  EXPECT_THAT(
      mix("kernel", std::vector<ParameterLayout>{{0, 4}, {4, 4}}, buffer, {}, memory).writes,
      IsEmpty());
  EXPECT_THAT(mix("kernel", std::vector<ParameterLayout>{{0, 8}}, buffer, {}, memory).writes,
              SizeIs(1));
}

TEST(Mix, CarriesDataFromKernelToKernel) {
  // A chain a -> b -> c: what the last one writes shows whether the first byte arrived.
  const auto run = [](int first_byte) {
    FakeMemory memory;
    memory.add(kMi, 4096)[17] = static_cast<std::byte>(first_byte);
    memory.add(2 * kMi, 4096);
    memory.add(3 * kMi, 4096);
    for (const std::uint64_t from : {kMi, 2 * kMi}) {
      for (const MixerWrite& write :
           mix_words("step", {from, from + kMi}, memory, {true, false}).writes) {
        memory.write(write);
      }
    }
    return lanes(mix_words("last", {3 * kMi}, memory).writes.at(0));
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

}  // namespace
}  // namespace simgpu

// The mixer over memory that is a table: what it reads, where it writes, and what its values depend
// on.
#include "tools/simgpu/driver/launch/mixer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <set>

namespace simgpu {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::Lt;
using ::testing::SizeIs;

constexpr std::uint64_t kMi = std::uint64_t{1} << 20;

/// Device memory out of blocks at chosen addresses. Reads outside of a block fail the test.
class FakeMemory final : public MixerMemory {
 public:
  std::vector<std::byte>& add(std::uint64_t address, std::size_t size) {
    return blocks_[address] = std::vector<std::byte>(size);
  }

  /// An operand at `address`, which lies in a block, as parameter number `position`.
  [[nodiscard]] MixerOperand operand(std::uint64_t address, Role role, std::uint64_t position = 0) {
    const auto block = std::prev(blocks_.upper_bound(address));
    return {address,  block->first, block->first + block->second.size(),
            position, role,         ResultType::kSmallIntegers,
            0};
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
  mutable std::vector<std::pair<std::uint64_t, std::size_t>> read_;
};

/// Enough that all of an operand's memory is written to.
constexpr std::uint64_t kManyThreads = std::uint64_t{1} << 30;

/// A mixer of kernel `name` that reads and writes what lies at `addresses`.
std::vector<MixerWrite> mix_all(const std::string& name,
                                const std::vector<std::uint64_t>& addresses, FakeMemory& memory,
                                ResultType type = ResultType::kSmallIntegers) {
  std::vector<MixerOperand> operands;
  for (const std::uint64_t address : addresses) {
    operands.push_back(memory.operand(address, Role::kInOut, operands.size()));
    operands.back().type = type;
  }
  return mix({name, kManyThreads}, operands, memory);
}

std::vector<std::uint64_t> lanes(const MixerWrite& write) {
  std::vector<std::uint64_t> values(write.size / sizeof(std::uint64_t));
  std::memcpy(values.data(), write.bytes.data(), values.size() * sizeof(std::uint64_t));
  return values;
}

std::vector<std::uint64_t> addresses(const std::vector<MixerWrite>& writes) {
  std::vector<std::uint64_t> all;
  for (const MixerWrite& write : writes) all.push_back(write.address);
  return all;
}

TEST(Mix, ReadsOneBlockAtTheAddressAndOneEvery64KiBBehindIt) {
  FakeMemory memory;
  memory.add(kMi, 3 * 65536 + 100);
  (void)mix_all("kernel", {kMi + 70}, memory);
  EXPECT_THAT(memory.reads(),
              ElementsAre(std::pair(kMi + 70, 64UL), std::pair(kMi + 65606, 64UL),
                          std::pair(kMi + 131142, 64UL), std::pair(kMi + 196678, 30UL)));
}

TEST(Mix, ReadsOfTheMiddleOfAnAllocationWhatItsThreadsCanUse) {
  FakeMemory memory;
  memory.add(kMi, 64 * kMi);
  const std::vector<MixerOperand> operands = {memory.operand(2 * kMi, Role::kInput)};
  const auto blocks_read = [&](std::uint64_t threads) {
    const std::size_t before = memory.reads().size();
    (void)mix({"kernel", threads}, operands, memory);
    return memory.reads().size() - before;
  };
  EXPECT_EQ(blocks_read(1), 1U);
  EXPECT_EQ(blocks_read(8192), 16U) << "1 MiB";
  EXPECT_EQ(blocks_read(kManyThreads), 63U * 16);
}

TEST(Mix, DependsOnEveryByteThatItReads) {
  FakeMemory memory;
  auto& bytes = memory.add(kMi, 2 * 65536);
  const auto before = lanes(mix_all("kernel", {kMi}, memory).at(0));
  for (const std::size_t at : {0UL, 7UL, 8UL, 63UL, 65536UL, 65599UL}) {
    bytes[at] = std::byte{1};
    EXPECT_NE(lanes(mix_all("kernel", {kMi}, memory).at(0)), before) << at;
    bytes[at] = std::byte{0};
  }
  EXPECT_EQ(lanes(mix_all("kernel", {kMi}, memory).at(0)), before);
}

TEST(Mix, DependsOnWhereAValueLies) {
  FakeMemory memory;
  auto& first = memory.add(kMi, 65536 + 64);
  auto& second = memory.add(2 * kMi, 65536 + 64);
  std::set<std::vector<std::uint64_t>> results;
  for (std::byte* const place : {&first[0], &first[8], &first[65536], &second[0]}) {
    *place = std::byte{42};
    results.insert(lanes(mix_all("kernel", {kMi, 2 * kMi}, memory).at(0)));
    *place = std::byte{0};
  }
  EXPECT_THAT(results, SizeIs(4));
}

TEST(Mix, IsUnchangedByZerosBehindTheData) {
  FakeMemory exact;
  exact.add(kMi, 70000)[5] = std::byte{9};
  FakeMemory rounded;
  rounded.add(kMi, 4 * kMi)[5] = std::byte{9};
  EXPECT_EQ(lanes(mix_all("kernel", {kMi}, exact).at(0)),
            lanes(mix_all("kernel", {kMi}, rounded).at(0)));
}

TEST(Mix, IsUnchangedByTheAddress) {
  FakeMemory here;
  here.add(kMi, 4096)[64] = std::byte{3};
  FakeMemory there;
  there.add(77 * kMi, 4096)[64] = std::byte{3};
  EXPECT_EQ(lanes(mix_all("kernel", {kMi + 64}, here).at(0)),
            lanes(mix_all("kernel", {77 * kMi + 64}, there).at(0)));
}

TEST(Mix, IsUnchangedByPointersInMemoryWhichAreOthersInEachRun) {
  const auto result_of = [](std::uint64_t word) {
    FakeMemory memory;
    std::memcpy(memory.add(kMi, 4096).data() + 8, &word, sizeof(word));
    return lanes(mix_all("kernel", {kMi}, memory).at(0));
  };
  EXPECT_EQ(result_of(0x7f12'8100'0000), result_of(0x6b00'8120'0600));
  EXPECT_NE(result_of(0x5f12'8100'0000), result_of(0x5b00'8120'0600));
  EXPECT_NE(result_of(0x1'7f12'8100'0000), result_of(0x1'6b00'8120'0600));
  constexpr auto kTokens = [](std::uint32_t first, std::uint64_t second) {
    return second << 32 | first;
  };
  EXPECT_NE(result_of(kTokens(5, 30000)), result_of(kTokens(9, 30000)));
  EXPECT_NE(result_of(kTokens(5, 30000)), result_of(kTokens(5, 31000)));
  constexpr std::uint32_t kLeftOut = -100;
  EXPECT_NE(result_of(kTokens(kLeftOut, 30000)), result_of(kTokens(kLeftOut, 31000)));
}

TEST(Mix, DependsOnTheKernelsName) {
  FakeMemory memory;
  memory.add(kMi, 4096);
  EXPECT_NE(lanes(mix_all("one", {kMi}, memory).at(0)), lanes(mix_all("two", {kMi}, memory).at(0)));
}

TEST(Mix, WritesIntegersThatStaySmall) {
  FakeMemory memory;
  memory.add(kMi, 4096)[0] = std::byte{200};
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 200; ++i) {
    for (const std::uint64_t lane :
         lanes(mix_all("kernel" + std::to_string(i), {kMi}, memory)[0])) {
      ASSERT_LE(lane, 4095U);
      seen.insert(lane);
    }
  }
  EXPECT_GT(seen.size(), 1000U) << "and use the whole range";
}

template <typename Float>
std::vector<Float> results(ResultType type) {
  FakeMemory memory;
  memory.add(kMi, 4096)[0] = std::byte{200};
  const MixerWrite write = mix_all("kernel", {kMi}, memory, type)[0];
  std::vector<Float> values(write.size / sizeof(Float));
  std::memcpy(values.data(), write.bytes.data(), write.size);
  return values;
}

TEST(Mix, WritesFloatsBetween1And2) {
  const std::vector<float> floats = results<float>(ResultType::kFloat);
  EXPECT_THAT(floats, Each(AllOf(Ge(1.0F), Lt(2.0F))));
  EXPECT_THAT(std::set<float>(floats.begin(), floats.end()), SizeIs(16));
  const std::vector<double> doubles = results<double>(ResultType::kDouble);
  EXPECT_THAT(doubles, Each(AllOf(Ge(1.0), Lt(2.0))));
  EXPECT_THAT(std::set<double>(doubles.begin(), doubles.end()), SizeIs(8));
  // 1.0 and 2.0 in IEEE's 16 bits.
  EXPECT_THAT(results<std::uint16_t>(ResultType::kHalf), Each(AllOf(Ge(0x3c00), Lt(0x4000))));
}

TEST(Mix, WritesAtTheAddressAndOnceEvery64KiBBehindIt) {
  FakeMemory memory;
  memory.add(2 * kMi, 4 * kMi);
  const auto writes = mix_all("_Z6kernelPf", {2 * kMi}, memory);
  ASSERT_THAT(writes, SizeIs(33)) << "the second granule may begin behind the data's end";
  EXPECT_EQ(writes[0].address, 2 * kMi);
  EXPECT_EQ(writes[1].address, 2 * kMi + 65536);
  EXPECT_EQ(writes[0].size, 64U);
  EXPECT_NE(lanes(writes[0]), lanes(writes[1])) << "no two pages get the same bytes";
}

// Mapped memory is rounded up to granules, an allocation is not.
TEST(Mix, IsUnchangedByZerosBehindTheDataWhenItWrites) {
  FakeMemory exact;
  exact.add(2 * kMi, 5 * kMi);
  FakeMemory rounded;
  rounded.add(2 * kMi, 6 * kMi);
  const auto in_exact = mix_all("kernel", {2 * kMi}, exact);
  const auto in_rounded = mix_all("kernel", {2 * kMi}, rounded);
  EXPECT_THAT(in_exact, SizeIs(65)) << "two granules, and the beginning of the third";
  EXPECT_EQ(addresses(in_exact), addresses(in_rounded));
  EXPECT_EQ(lanes(in_exact.back()), lanes(in_rounded.back()));
}

TEST(Mix, WritesNothingOutsideAnAllocationThatEndsEarly) {
  FakeMemory memory;
  memory.add(kMi, 100);
  const auto writes = mix_all("kernel", {kMi + 80}, memory);
  EXPECT_THAT(addresses(writes), ElementsAre(kMi + 80));
  EXPECT_EQ(writes[0].size, 20U);
}

/// How many blocks a launch of `kernel` writes to an operand at `offset` of 16 MiB.
std::size_t blocks_written(std::string_view kernel, std::uint64_t threads, std::uint64_t offset = 0,
                           ResultType type = ResultType::kSmallIntegers) {
  FakeMemory memory;
  memory.add(kMi, 16 * kMi);
  std::vector<MixerOperand> operands = {memory.operand(kMi + offset, Role::kOutput)};
  operands[0].type = type;
  return mix({kernel, threads}, operands, memory).size();
}

// A caching allocator puts many tensors into one allocation.
TEST(Mix, WritesNoMoreThanItsThreadsCanIntoAMuchLargerAllocation) {
  constexpr std::string_view kName = "_Z6kernelPf";
  EXPECT_EQ(blocks_written(kName, 1), 1U);
  EXPECT_EQ(blocks_written(kName, 8192), 2U) << "128 KiB";
  EXPECT_EQ(blocks_written(kName, 8192, 0, ResultType::kHalf), 1U) << "64 KiB";
  EXPECT_EQ(blocks_written(kName, 131072), 225U) << "16 MiB are within reach";
}

TEST(Mix, TakesAnAddressWithinAnAllocationForOneOfSeveralTensors) {
  EXPECT_EQ(blocks_written("_Z6kernelPf", 131072, 65536), 32U) << "2 MiB";
  EXPECT_EQ(blocks_written("_Z6kernelPf", kManyThreads, 65536), 224U) << "but not behind the end";
}

// One thread of XLA's kernels computes one number, or four.
TEST(Mix, WritesLessForKernelsThatATensorCompilerMade) {
  EXPECT_EQ(blocks_written("loop_add_fusion", 65536), 4U) << "256 KiB";
  EXPECT_EQ(blocks_written("loop_add_fusion", 65536, 65536), 4U);
  EXPECT_EQ(blocks_written("loop_add_fusion", 1 << 20), 225U) << "16 MiB";
}

TEST(Mix, EndsWhereAnotherOperandBegins) {
  FakeMemory memory;
  memory.add(kMi, 16 * kMi);
  memory.add(32 * kMi, kMi);
  const std::vector<MixerOperand> operands = {
      memory.operand(kMi, Role::kOutput, 0), memory.operand(2 * kMi + 32, Role::kInput, 1),
      memory.operand(kMi + 65536 + 8, Role::kOutput, 2), memory.operand(32 * kMi, Role::kInput, 3)};
  const auto writes = mix({"_Z6kernelPf", kManyThreads}, operands, memory);
  ASSERT_THAT(writes, SizeIs(2 + 16));
  EXPECT_EQ(writes[1].address, kMi + 65536);
  EXPECT_EQ(writes[1].size, 8U);
  EXPECT_EQ(writes.back().address, kMi + 16 * 65536 + 8);
  EXPECT_EQ(writes.back().size, 24U);
}

/// An operand of `bytes` at `address`, within a block.
MixerOperand known(FakeMemory& memory, std::uint64_t address, std::uint64_t bytes) {
  MixerOperand operand = memory.operand(address, Role::kInOut);
  operand.bytes = bytes;
  return operand;
}

TEST(Mix, TouchesAnOperandOfKnownSizeAtItsBothEndsAndNowhereElse) {
  FakeMemory memory;
  memory.add(kMi, 4 * kMi);
  using Places = std::vector<std::pair<std::uint64_t, std::size_t>>;
  const auto places = [&](std::uint64_t bytes) {
    const std::vector<MixerOperand> operands = {known(memory, kMi + 20, bytes)};
    const std::size_t before = memory.reads().size();
    Places written;
    for (const MixerWrite& write : mix({"kernel", kManyThreads}, operands, memory)) {
      written.emplace_back(write.address, write.size);
    }
    EXPECT_EQ(written, Places(memory.reads().begin() + static_cast<std::ptrdiff_t>(before),
                              memory.reads().end()))
        << "it reads where it writes";
    return written;
  };
  constexpr std::uint64_t kAt = kMi + 20;
  EXPECT_EQ(places(4), (Places{{kAt, 4}}));
  EXPECT_EQ(places(64), (Places{{kAt, 64}}));
  EXPECT_EQ(places(70), (Places{{kAt, 64}, {kAt + 64, 6}})) << "no byte twice";
  EXPECT_EQ(places(1000), (Places{{kAt, 64}, {kAt + 936, 64}}));
  EXPECT_EQ(places(65536), (Places{{kAt, 64}, {kAt + 65472, 64}}));
  EXPECT_EQ(places(65540), (Places{{kAt, 64}, {kAt + 65536, 4}}));
  EXPECT_EQ(places(70000), (Places{{kAt, 64}, {kAt + 65536, 64}, {kAt + 69936, 64}}));
}

TEST(Mix, StaysInsideTheAllocationWhereASizeIsTooLarge) {
  FakeMemory memory;
  memory.add(kMi, 100);
  for (const std::uint64_t bytes : {1000UL, ~0UL}) {
    const std::vector<MixerOperand> operands = {known(memory, kMi + 80, bytes)};
    const auto writes = mix({"kernel", 1}, operands, memory);
    EXPECT_THAT(addresses(writes), ElementsAre(kMi + 80));
    EXPECT_EQ(writes[0].size, 20U);
  }
}

// One thread of a product computes many numbers.
TEST(Mix, WritesAllOfAKnownSizeWhateverItsThreads) {
  FakeMemory memory;
  memory.add(kMi, 16 * kMi);
  const std::vector<MixerOperand> operands = {known(memory, kMi, kMi)};
  EXPECT_THAT(mix({"kernel", 1}, operands, memory), SizeIs(17));
}

TEST(Mix, DependsOnTheLastByteOfAKnownSizeAndNotOnTheNext) {
  FakeMemory memory;
  auto& bytes = memory.add(kMi, 4096);
  const std::vector<MixerOperand> operands = {known(memory, kMi + 20, 1000)};
  const auto before = lanes(mix({"kernel", 1}, operands, memory)[0]);
  for (const auto& [at, counts] : {std::pair{19, false}, {20, true}, {1019, true}, {1020, false}}) {
    bytes[static_cast<std::size_t>(at)] = std::byte{1};
    EXPECT_EQ(lanes(mix({"kernel", 1}, operands, memory)[0]) != before, counts) << at;
    bytes[static_cast<std::size_t>(at)] = std::byte{0};
  }
}

TEST(Mix, WritesWhatIsWrittenAndReadsWhatIsRead) {
  FakeMemory memory;
  for (std::uint64_t i = 1; i <= 4; ++i) memory.add(i * kMi, 64);
  const std::vector<MixerOperand> operands = {
      memory.operand(kMi, Role::kOutput, 0), memory.operand(2 * kMi, Role::kInput, 1),
      memory.operand(3 * kMi, Role::kInOut, 2), memory.operand(4 * kMi, Role::kPossible, 3)};
  const auto writes = mix({"kernel", 1}, operands, memory);
  EXPECT_THAT(addresses(writes), ElementsAre(kMi, 3 * kMi));
  std::set<std::uint64_t> read;
  for (const auto& [address, size] : memory.reads()) read.insert(address);
  EXPECT_THAT(read, ElementsAre(2 * kMi, 3 * kMi, 4 * kMi));
}

TEST(Mix, CarriesDataFromKernelToKernel) {
  // A chain a -> b -> c: what the last one writes shows whether the first byte arrived.
  const auto run = [](int first_byte) {
    FakeMemory memory;
    memory.add(kMi, 4096)[17] = static_cast<std::byte>(first_byte);
    memory.add(2 * kMi, 4096);
    memory.add(3 * kMi, 4096);
    for (const std::uint64_t from : {kMi, 2 * kMi}) {
      const std::vector<MixerOperand> operands = {memory.operand(from, Role::kInput, 0),
                                                  memory.operand(from + kMi, Role::kOutput, 1)};
      for (const MixerWrite& write : mix({"step", 1}, operands, memory)) {
        memory.write(write);
      }
    }
    return lanes(mix_all("last", {3 * kMi}, memory).at(0));
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

}  // namespace
}  // namespace simgpu

#include "tools/simgpu/driver/launch/mixer.h"

#include <algorithm>
#include <cstring>

namespace simgpu {
namespace {

/// A bijection that spreads every bit over the word, and keeps 0: the finaliser of MurmurHash3
/// (Appleby, public domain).
constexpr std::uint64_t spread(std::uint64_t value) {
  value ^= value >> 33;
  value *= 0xff51afd7ed558ccdULL;
  value ^= value >> 33;
  value *= 0xc4ceb9fe1a85ec53ULL;
  value ^= value >> 33;
  return value;
}

constexpr std::uint64_t combine(std::uint64_t left, std::uint64_t right) {
  return spread(left + 0x9e3779b97f4a7c15ULL + spread(right + 0x632be59bd9b4e019ULL));
}

/// FNV-1a: the same on every machine, as std::hash need not be.
constexpr std::uint64_t hash_name(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

bool is_known(const MixerOperand& operand) { return operand.bytes != 0; }

/// Bytes that a thread is taken to touch at most, where a launch names an allocation's middle.
constexpr std::uint64_t kMostOfAThread = 128;

/// One past the last byte of `operand` that a mixer reads.
std::uint64_t end_of_reads(const MixerLaunch& launch, const MixerOperand& operand) {
  const std::uint64_t there = operand.end - operand.address;
  if (is_known(operand)) return operand.address + std::min(operand.bytes, there);
  if (operand.address == operand.begin) return operand.end;
  return operand.address + std::min(kMostOfAThread * launch.threads, there);
}

/// The part of a block that lies inside the operand's memory.
struct Piece {
  std::uint64_t address;
  std::size_t size;
};

/// Calls `use(piece, index)` for the blocks of `operand` that begin before `last_begin`, as far as
/// they lie before `end`, and if the operand's bytes are known, for what the last 64 of them have
/// behind those.
template <typename Use>
void for_each_block(const MixerOperand& operand, std::uint64_t last_begin, std::uint64_t end,
                    const Use& use) {
  std::uint64_t index = 0;
  std::uint64_t done = operand.address;
  const auto use_from = [&](std::uint64_t begin) {
    done = begin + std::min<std::uint64_t>(kMixerBlock, end - begin);
    use(Piece{begin, static_cast<std::size_t>(done - begin)}, index++);
  };
  for (std::uint64_t block = operand.address;
       block < std::min(last_begin, end) && block >= operand.address; block += kMixerStride) {
    use_from(block);
  }
  if (is_known(operand) && done < end) use_from(std::max(done, end - kMixerBlock));
}

/// Whether `word` looks like an address of simgpu's memory: its upper half is one that systems give
/// programs, and its lower half lies behind where memory begins (start_address.h). Two 32-bit
/// numbers look like it only if the first is below -268,435,456, floats never, and four halves only
/// if the second is negative and the last is zero.
constexpr bool may_be_address(std::uint64_t word) {
  constexpr std::uint64_t kFirstUpper = 0x6000;
  constexpr std::uint64_t kEndUpper = 0x8000;
  constexpr std::uint64_t kFirstLower = 0x8100'0000;
  constexpr std::uint64_t kEndLower = 0xf000'0000;
  const std::uint64_t upper = word >> 32;
  const std::uint64_t lower = word & 0xffff'ffff;
  return upper >= kFirstUpper && upper < kEndUpper && lower >= kFirstLower && lower < kEndLower;
}

/// What one operand adds to the sum: each word that is not zero, weighted by where it was read.
/// Words that may be addresses add nothing: a table of pointers is another in each run.
std::uint64_t sum_of(const MixerLaunch& launch, const MixerOperand& operand,
                     const MixerMemory& memory) {
  std::uint64_t sum = 0;
  const std::uint64_t end = end_of_reads(launch, operand);
  for_each_block(operand, end, end, [&](const Piece& piece, std::uint64_t index) {
    std::array<std::byte, kMixerBlock> bytes{};
    memory.read(piece.address, std::span(bytes).first(piece.size));
    for (std::size_t lane = 0; lane < kMixerBlock / sizeof(std::uint64_t); ++lane) {
      std::uint64_t word;
      std::memcpy(&word, bytes.data() + lane * sizeof(word), sizeof(word));
      if (word != 0 && !may_be_address(word)) {  // most memory that is swept is zero
        const std::uint64_t place = combine(operand.position, index * kMixerBlock + lane);
        sum += spread(word) * (place | 1);
      }
    }
  });
  return sum;
}

/// 8 bytes of results of `type` that carry as many of the bits of `random` as they can, and harm no
/// program that takes them for sizes, indices or numbers to compute with.
std::uint64_t result_word(ResultType type, std::uint64_t random) {
  switch (type) {
    case ResultType::kHalf:
      // A float of 16 bits begins with sign and exponent: 0x3c of 1.0 in IEEE's format; in
      // bfloat16's it is a number near 0.01.
      return (random & 0x03ff'03ff'03ff'03ffULL) | 0x3c00'3c00'3c00'3c00ULL;
    case ResultType::kFloat:
      return (random & 0x007f'ffff'007f'ffffULL) | 0x3f80'0000'3f80'0000ULL;
    case ResultType::kDouble:
      return (random & 0x000f'ffff'ffff'ffffULL) | 0x3ff0'0000'0000'0000ULL;
    case ResultType::kSmallIntegers:
      break;
  }
  return random & 0xfff;
}

MixerWrite write_to(ResultType type, const Piece& piece, std::uint64_t seed) {
  MixerWrite write{.address = piece.address, .size = piece.size, .bytes = {}};
  for (std::size_t lane = 0; lane < kMixerBlock / sizeof(std::uint64_t); ++lane) {
    const std::uint64_t word = result_word(type, combine(seed, lane));
    std::memcpy(write.bytes.data() + lane * sizeof(word), &word, sizeof(word));
  }
  std::fill(write.bytes.begin() + static_cast<std::ptrdiff_t>(piece.size), write.bytes.end(),
            std::byte{0});
  return write;
}

/// Whether the kernel's name is a mangled one of C++. Those of compilers of tensor programs (XLA,
/// Triton) are not.
bool has_signature(std::string_view kernel) { return kernel.substr(0, 2) == "_Z"; }

/// How far behind its address `operand` is taken to be written, in bytes, if it may be one of
/// several that share memory.
std::uint64_t bytes_of_threads(const MixerLaunch& launch, const MixerOperand& operand) {
  // Four numbers, or 16 bytes, of each thread of PyTorch's elementwise kernels; one of XLA's.
  constexpr std::uint64_t kOfAThread = 16;
  constexpr std::uint64_t kHalvesOfAThread = 8;
  constexpr std::uint64_t kOfACompiledThread = 4;
  if (!has_signature(launch.kernel)) return kOfACompiledThread * launch.threads;
  return (operand.type == ResultType::kHalf ? kHalvesOfAThread : kOfAThread) * launch.threads;
}

/// One past where the last block of `operand` that is written to may begin; of an operand of
/// unknown size.
std::uint64_t last_begin_of_writes(const MixerLaunch& launch, const MixerOperand& operand) {
  constexpr std::uint64_t kMostOfACompiledThread = 16;
  const std::uint64_t granules = (operand.end - operand.begin + kMixerGranule - 1) / kMixerGranule;
  const std::uint64_t last_granule = operand.begin + (granules - 1) * kMixerGranule;
  const std::uint64_t reach = operand.address + bytes_of_threads(launch, operand);
  if (operand.address == operand.begin) {
    const std::uint64_t behind = last_granule - operand.address;
    const bool is_all = has_signature(launch.kernel)
                            ? behind + kMixerGranule <= kMostOfAThread * launch.threads
                            : behind < kMostOfACompiledThread * launch.threads;
    if (is_all) return last_granule + 1;
  }
  return std::min(last_granule + 1, reach);
}

/// One past the last byte of `operand`, of unknown size, that may be written to: behind it another
/// one of `operands` may begin in the same memory.
std::uint64_t end_of_writes(const MixerOperand& operand, std::span<const MixerOperand> operands) {
  std::uint64_t end = operand.end;
  for (const MixerOperand& other : operands) {
    if (other.begin == operand.begin && other.address > operand.address) {
      end = std::min(end, other.address);
    }
  }
  return end;
}

}  // namespace

std::vector<MixerWrite> mix(const MixerLaunch& launch, std::span<const MixerOperand> operands,
                            const MixerMemory& memory) {
  std::uint64_t sum = 0;
  for (const MixerOperand& operand : operands) {
    if (operand.role != Role::kOutput) sum += sum_of(launch, operand, memory);
  }
  const std::uint64_t name_hash = hash_name(launch.kernel);
  std::vector<MixerWrite> writes;
  for (const MixerOperand& operand : operands) {
    if (operand.role != Role::kOutput && operand.role != Role::kInOut) continue;
    const std::uint64_t seed = combine(combine(name_hash, operand.position), sum);
    const std::uint64_t end =
        is_known(operand) ? end_of_reads(launch, operand) : end_of_writes(operand, operands);
    const std::uint64_t last_begin =
        is_known(operand) ? end
                          : std::max(last_begin_of_writes(launch, operand), operand.address + 1);
    for_each_block(operand, last_begin, end, [&](const Piece& piece, std::uint64_t index) {
      writes.push_back(write_to(operand.type, piece, combine(seed, index)));
    });
  }
  return writes;
}

}  // namespace simgpu

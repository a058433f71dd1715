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

std::uint64_t round_down(std::uint64_t address) { return address / kMixerBlock * kMixerBlock; }

/// The part of an operand's memory that a mixer may touch, and where its first block is.
struct Reach {
  std::uint64_t begin;
  std::uint64_t end;
  std::uint64_t first_block;
};

bool is_known(const MixerOperand& operand) { return operand.bytes != 0; }

Reach reach_of(const MixerOperand& operand) {
  if (!is_known(operand)) return {operand.begin, operand.end, round_down(operand.address)};
  const std::uint64_t bytes = std::min(operand.bytes, operand.end - operand.address);
  return {operand.address, operand.address + bytes, operand.address};
}

/// The part of a block that lies inside the operand's memory.
struct Piece {
  std::uint64_t address;
  std::size_t skip;  ///< bytes of the block before the memory begins
  std::size_t size;
};

Piece clip(const Reach& reach, std::uint64_t block) {
  const std::uint64_t begin = std::max(block, reach.begin);
  const std::uint64_t end = std::min(block + kMixerBlock, reach.end);
  return {begin, static_cast<std::size_t>(begin - block), static_cast<std::size_t>(end - begin)};
}

/// Calls `use(piece, index)` for the blocks of `operand` that begin before `end`, and if its bytes
/// are known, for what the last 64 of them have behind those.
template <typename Use>
void for_each_block(const MixerOperand& operand, std::uint64_t end, const Use& use) {
  const Reach reach = reach_of(operand);
  std::uint64_t index = 0;
  std::uint64_t done = reach.begin;
  for (std::uint64_t block = reach.first_block; block < end && block >= reach.first_block;
       block += kMixerStride, ++index) {
    const Piece piece = clip(reach, block);
    done = piece.address + piece.size;
    use(piece, index);
  }
  if (!is_known(operand) || done >= reach.end) return;
  use(clip(reach, std::max(done, reach.end - kMixerBlock)), index);
}

/// What one operand adds to the sum: each word that is not zero, weighted by where it was read.
std::uint64_t sum_of(const MixerOperand& operand, const MixerMemory& memory) {
  std::uint64_t sum = 0;
  for_each_block(operand, reach_of(operand).end, [&](const Piece& piece, std::uint64_t index) {
    std::array<std::byte, kMixerBlock> bytes{};
    memory.read(piece.address, std::span(bytes).subspan(piece.skip, piece.size));
    for (std::size_t lane = 0; lane < kMixerBlock / sizeof(std::uint64_t); ++lane) {
      std::uint64_t word;
      std::memcpy(&word, bytes.data() + lane * sizeof(word), sizeof(word));
      if (word != 0) {  // most memory that is swept is zero
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
  std::array<std::byte, kMixerBlock> bytes{};
  for (std::size_t lane = 0; lane < kMixerBlock / sizeof(std::uint64_t); ++lane) {
    const std::uint64_t word = result_word(type, combine(seed, lane));
    std::memcpy(bytes.data() + lane * sizeof(word), &word, sizeof(word));
  }
  std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(piece.skip), piece.size,
              write.bytes.begin());
  return write;
}

/// One past the last block of `operand` that is written to, the first block apart.
std::uint64_t end_of_writes(const MixerOperand& operand, std::uint64_t threads) {
  if (is_known(operand)) return reach_of(operand).end;
  constexpr std::uint64_t kOfAThread = 16;
  constexpr std::uint64_t kMostOfAThread = 128;
  const std::uint64_t granules = (operand.end - operand.begin + kMixerGranule - 1) / kMixerGranule;
  const std::uint64_t last_granule = operand.begin + (granules - 1) * kMixerGranule;
  const std::uint64_t size = last_granule + kMixerGranule - operand.address;
  if (size <= kMostOfAThread * threads) return last_granule + 1;
  return std::min(last_granule + 1, operand.address + kOfAThread * threads);
}

}  // namespace

std::vector<MixerWrite> mix(const MixerLaunch& launch, std::span<const MixerOperand> operands,
                            const MixerMemory& memory) {
  std::uint64_t sum = 0;
  for (const MixerOperand& operand : operands) {
    if (operand.role != Role::kOutput) sum += sum_of(operand, memory);
  }
  const std::uint64_t name_hash = hash_name(launch.kernel);
  std::vector<MixerWrite> writes;
  for (const MixerOperand& operand : operands) {
    if (operand.role != Role::kOutput && operand.role != Role::kInOut) continue;
    const std::uint64_t seed = combine(combine(name_hash, operand.position), sum);
    const std::uint64_t end =
        std::max(end_of_writes(operand, launch.threads), round_down(operand.address) + 1);
    for_each_block(operand, end, [&](const Piece& piece, std::uint64_t index) {
      writes.push_back(write_to(operand.type, piece, combine(seed, index)));
    });
  }
  return writes;
}

}  // namespace simgpu

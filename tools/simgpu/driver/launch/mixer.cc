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

/// A parameter word that is a live device address.
struct Pointer {
  std::uint64_t address;
  std::uint64_t begin;
  std::uint64_t end;
  std::uint64_t position;  ///< of the word in the parameter buffer, in words
  bool is_const;
};

std::uint64_t round_down(std::uint64_t address) { return address / kMixerBlock * kMixerBlock; }

/// The part of the 64 bytes at `block` that lies inside the pointer's range.
struct Piece {
  std::uint64_t address;
  std::size_t skip;  ///< bytes of the block before the range begins
  std::size_t size;
};

Piece clip(const Pointer& pointer, std::uint64_t block) {
  const std::uint64_t begin = std::max(block, pointer.begin);
  const std::uint64_t end = std::min(block + kMixerBlock, pointer.end);
  return {begin, static_cast<std::size_t>(begin - block), static_cast<std::size_t>(end - begin)};
}

/// What one pointer adds to the sum: each word that is not zero, weighted by where it was read.
std::uint64_t sum_of(const Pointer& pointer, const MixerMemory& memory) {
  std::uint64_t sum = 0;
  std::uint64_t index = 0;
  const std::uint64_t first = round_down(pointer.address);
  for (std::uint64_t block = first; block < pointer.end && block >= first;
       block += kMixerStride, ++index) {
    std::array<std::byte, kMixerBlock> bytes{};
    const Piece piece = clip(pointer, block);
    memory.read(piece.address, std::span(bytes).subspan(piece.skip, piece.size));
    for (std::size_t lane = 0; lane < kMixerBlock / sizeof(std::uint64_t); ++lane) {
      std::uint64_t word;
      std::memcpy(&word, bytes.data() + lane * sizeof(word), sizeof(word));
      if (word != 0) {  // most memory that is swept is zero
        const std::uint64_t place = combine(pointer.position, index * kMixerBlock + lane);
        sum += spread(word) * (place | 1);
      }
    }
  }
  return sum;
}

MixerWrite write_to(const Pointer& pointer, std::uint64_t name_hash, std::uint64_t sum) {
  const std::uint64_t block = round_down(pointer.address);
  const Piece piece = clip(pointer, block);
  MixerWrite write{.address = piece.address, .size = piece.size, .bytes = {}};
  std::array<std::byte, kMixerBlock> bytes{};
  const std::uint64_t seed = combine(combine(name_hash, pointer.position), sum);
  for (std::size_t lane = 0; lane < kMixerBlock / sizeof(std::uint64_t); ++lane) {
    // At most 255, so that a program that reads it back as a size or a count gets a usable one.
    const std::uint64_t word = combine(seed, lane) & 0xff;
    std::memcpy(bytes.data() + lane * sizeof(word), &word, sizeof(word));
  }
  std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(piece.skip), piece.size,
              write.bytes.begin());
  return write;
}

/// The pointers to write to: those marked, or the one with the smallest hash if none is.
std::vector<const Pointer*> choose_outputs(const std::vector<Pointer>& pointers,
                                           std::uint64_t name_hash) {
  std::vector<const Pointer*> outputs;
  const Pointer* fallback = nullptr;
  std::uint64_t smallest = 0;
  for (const Pointer& pointer : pointers) {
    if (pointer.is_const) continue;
    const std::uint64_t mark = combine(name_hash ^ 0x6f7574707574ULL, pointer.position);
    if ((mark & 1) != 0) outputs.push_back(&pointer);
    if (fallback == nullptr || mark < smallest) {
      fallback = &pointer;
      smallest = mark;
    }
  }
  if (outputs.empty() && fallback != nullptr) outputs.push_back(fallback);
  return outputs;
}

}  // namespace

Mix mix(std::string_view name, std::span<const ParameterLayout> parameters,
        std::span<const std::byte> buffer, const std::vector<bool>& is_const,
        const MixerMemory& memory) {
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  Mix result;
  std::vector<Pointer> pointers;
  // A signature that does not match the layout (templates with packs demangle oddly) says nothing.
  const bool trust_names = is_const.size() == parameters.size();
  for (std::size_t ordinal = 0; ordinal < parameters.size(); ++ordinal) {
    const ParameterLayout& parameter = parameters[ordinal];
    const std::size_t end = std::min(parameter.offset + parameter.size, buffer.size());
    for (std::size_t at = (parameter.offset + kWord - 1) / kWord * kWord; at + kWord <= end;
         at += kWord) {
      std::uint64_t word;
      std::memcpy(&word, buffer.data() + at, kWord);
      const MixerMemory::Place place = memory.find(word);
      // Programs hand structs over as they lie on their stack, with what was there before in the
      // bytes that no member covers; only a parameter that is a pointer surely is one.
      const bool faults =
          place.kind == MixerMemory::Kind::kUnmapped ||
          (place.kind == MixerMemory::Kind::kNeverMapped && parameter.size == kWord);
      if (faults) {
        result.unmapped.push_back(word);
      } else if (place.kind == MixerMemory::Kind::kLive) {
        pointers.push_back(
            {word, place.begin, place.end, at / kWord, trust_names && is_const[ordinal]});
      }
    }
  }
  if (!result.unmapped.empty()) return result;
  const std::uint64_t name_hash = hash_name(name);
  std::uint64_t sum = 0;
  for (const Pointer& pointer : pointers) sum += sum_of(pointer, memory);
  for (const Pointer* const output : choose_outputs(pointers, name_hash)) {
    result.writes.push_back(write_to(*output, name_hash, sum));
  }
  return result;
}

}  // namespace simgpu

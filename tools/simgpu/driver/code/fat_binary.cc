#include "tools/simgpu/driver/code/fat_binary.h"

#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "tools/simgpu/driver/code/cubin.h"
#include "tools/simgpu/driver/code/ptx.h"

namespace simgpu {
namespace {

constexpr std::uint32_t kWrapperMagic = 0x466243b1;
constexpr std::uint32_t kFatBinaryMagic = 0xba55ed50;
constexpr std::uint16_t kKindPtx = 1;
constexpr std::uint16_t kKindElf = 2;
constexpr std::uint64_t kFlagLz4 = 0x2000;
constexpr std::uint64_t kFlagZstd = 0x8000;

/// __fatBinC_Wrapper_t of fatbinary_section.h.
struct Wrapper {
  std::uint32_t magic;
  std::uint32_t version;
  const void* data;
  const void* unused;
};

struct Header {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t header_size;
  std::uint64_t size;  ///< of all entries
};
static_assert(sizeof(Header) == 16);

struct Entry {
  std::uint16_t kind = 0;
  unsigned capability = 0;
  Compression compression = Compression::kNone;
  ByteView payload;
  std::uint64_t uncompressed_size = 0;
};

ImageRefusal invalid_fat_binary(std::string reason) {
  return {ImageError::kInvalid, "fat binary: " + std::move(reason)};
}

/// Reads the entry at `at` and moves `at` behind it.
std::optional<Entry> read_entry(ByteView entries, std::uint64_t& at) {
  const auto kind = entries.load<std::uint16_t>(at);
  const auto header_size = entries.load<std::uint32_t>(at + 4);
  const auto padded_size = entries.load<std::uint64_t>(at + 8);
  const auto compressed_size = entries.load<std::uint32_t>(at + 16);
  const auto capability = entries.load<std::uint32_t>(at + 28);
  const auto flags = entries.load<std::uint64_t>(at + 40);
  if (!kind || !header_size || !padded_size || !compressed_size || !capability || !flags ||
      *header_size < 48 || !entries.slice(at, *header_size)) {
    return std::nullopt;
  }
  Entry entry{.kind = *kind,
              .capability = *capability,
              .compression = (*flags & kFlagZstd) != 0  ? Compression::kZstd
                             : (*flags & kFlagLz4) != 0 ? Compression::kLz4
                                                        : Compression::kNone,
              .payload = {},
              .uncompressed_size = 0};
  const auto padded = entries.slice(at + *header_size, *padded_size);
  if (!padded) return std::nullopt;
  entry.payload = *padded;
  if (entry.compression != Compression::kNone) {
    const auto payload = padded->slice(0, *compressed_size);
    const auto size = entries.load<std::uint64_t>(at + 56);
    if (*header_size < 64 || !payload || !size) return std::nullopt;
    entry.payload = *payload;
    entry.uncompressed_size = *size;
  }
  at += *header_size + *padded_size;
  return entry;
}

/// How much an entry is wanted; the largest wins, the first among equals. 0: of no use.
unsigned preference(const Entry& entry, unsigned capability) {
  if (entry.kind == kKindElf) {
    if (entry.capability == capability) return 4'000'000;
    const bool compatible =
        entry.capability / 10 == capability / 10 && entry.capability < capability;
    return (compatible ? 3'000'000 : 2'000'000) + entry.capability % 1'000'000;
  }
  return entry.kind == kKindPtx ? 1'000'000 + entry.capability % 1'000'000 : 0;
}

/// Whether memory begins with `magic`; reads no byte behind the first that differs, since text may
/// be shorter.
bool begins_with(const std::byte* bytes, std::uint32_t magic) {
  for (unsigned i = 0; i < sizeof(magic); ++i) {
    if (std::to_integer<std::uint32_t>(bytes[i]) != (magic >> (8 * i) & 0xff)) return false;
  }
  return true;
}

std::string_view as_text(ByteView image) {
  const std::string_view text(reinterpret_cast<const char*>(image.bytes().data()), image.size());
  return text.substr(0, text.find('\0'));
}

ImageResult read_payload(const Entry& entry, Decompressor& decompressor) {
  ByteView payload = entry.payload;
  std::vector<std::byte> decompressed;
  if (entry.compression != Compression::kNone) {
    auto result =
        decompressor.decompress(entry.compression, payload.bytes(), entry.uncompressed_size);
    if (const auto* const failure = std::get_if<Decompressor::Failure>(&result)) {
      if (*failure == Decompressor::Failure::kMissingLibrary) {
        const std::string& library = decompressor.library(entry.compression);
        return ImageRefusal{ImageError::kNoDecompressor,
                            "fat binary: it is compressed, and " + library +
                                " cannot be opened; install it, or build the program with "
                                "--compress-mode=none"};
      }
      return invalid_fat_binary("corrupt compressed entry");
    }
    decompressed = std::move(std::get<0>(result));
    payload = ByteView(decompressed);
  }
  return entry.kind == kKindElf ? read_cubin(payload) : read_ptx(as_text(payload));
}

ImageResult read_fat_binary(ByteView image, Decompressor& decompressor, unsigned capability) {
  const auto header = image.load<Header>(0);
  if (!header || header->header_size < sizeof(Header)) return invalid_fat_binary("cut short");
  const auto entries = image.slice(header->header_size, header->size);
  if (!entries) return invalid_fat_binary("cut short");
  std::optional<Entry> best;
  for (std::uint64_t at = 0; at < entries->size();) {
    const auto entry = read_entry(*entries, at);
    if (!entry) return invalid_fat_binary("malformed entry");
    if (preference(*entry, capability) > (best ? preference(*best, capability) : 0)) best = entry;
  }
  if (!best) {
    return ImageRefusal{ImageError::kNoBinary, "fat binary: has neither machine code nor PTX"};
  }
  return read_payload(*best, decompressor);
}

}  // namespace

ImageResult read_image(ByteView image, Decompressor& decompressor, unsigned capability) {
  if (const auto magic = image.load<std::uint32_t>(0); magic && *magic == kFatBinaryMagic) {
    return read_fat_binary(image, decompressor, capability);
  }
  if (looks_like_elf(image)) return read_cubin(image);
  const std::string_view text = as_text(image);
  if (text.find(".version") == std::string_view::npos) {
    return ImageRefusal{ImageError::kInvalid, "neither a fat binary, nor a cubin, nor PTX"};
  }
  return read_ptx(text);
}

ByteView image_at(const void* address) {
  const auto* bytes = static_cast<const std::byte*>(address);
  if (begins_with(bytes, kWrapperMagic)) {
    Wrapper wrapper;
    std::memcpy(&wrapper, bytes, sizeof(wrapper));
    if (wrapper.data == nullptr) return {};
    bytes = static_cast<const std::byte*>(wrapper.data);
  }
  if (begins_with(bytes, kFatBinaryMagic)) {
    Header header;
    std::memcpy(&header, bytes, sizeof(header));
    return ByteView({bytes, header.header_size + header.size});
  }
  if (const std::byte first = bytes[0]; first == std::byte{0x7f}) {
    return ByteView({bytes, elf_extent(bytes)});
  }
  return ByteView({bytes, std::strlen(reinterpret_cast<const char*>(bytes))});
}

}  // namespace simgpu

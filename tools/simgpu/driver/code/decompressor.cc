#include "tools/simgpu/driver/code/decompressor.h"

#include <dlfcn.h>

#include <climits>

namespace simgpu {

void* Decompressor::open(Library& library) {
  std::call_once(library.opened, [&library] {
    // Never closed: other threads may be inside.
    void* const handle = dlopen(library.path.c_str(), RTLD_NOW | RTLD_LOCAL);
    library.function = handle == nullptr ? nullptr : dlsym(handle, library.symbol);
  });
  return library.function;
}

std::variant<std::vector<std::byte>, Decompressor::Failure> Decompressor::decompress(
    Compression compression, std::span<const std::byte> payload, std::size_t size) {
  using ZstdDecompress = std::size_t (*)(void*, std::size_t, const void*, std::size_t);
  using Lz4Decompress = int (*)(const char*, char*, int, int);
  if (size > kMaxBytes || payload.size() > kMaxBytes) return Failure::kCorrupt;
  if (compression == Compression::kNone) {
    if (payload.size() != size) return Failure::kCorrupt;
    return std::vector<std::byte>(payload.begin(), payload.end());
  }
  void* const function = open(compression == Compression::kZstd ? zstd_ : lz4_);
  if (function == nullptr) return Failure::kMissingLibrary;
  std::vector<std::byte> bytes(size);
  // On failure zstd returns an error code near the largest size_t, LZ4 a negative number; neither
  // is a size up to kMaxBytes.
  static_assert(kMaxBytes <= INT_MAX);
  const std::size_t written =
      compression == Compression::kZstd
          ? reinterpret_cast<ZstdDecompress>(function)(bytes.data(), size, payload.data(),
                                                       payload.size())
          : static_cast<std::size_t>(reinterpret_cast<Lz4Decompress>(function)(
                reinterpret_cast<const char*>(payload.data()),
                reinterpret_cast<char*>(bytes.data()), static_cast<int>(payload.size()),
                static_cast<int>(size)));
  if (written != size) return Failure::kCorrupt;
  return bytes;
}

}  // namespace simgpu

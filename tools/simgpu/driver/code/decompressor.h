// Decompresses the payloads of fat binaries, with libraries that are opened only when needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace simgpu {

/// How a fat binary's payload is compressed.
enum class Compression { kNone, kLz4, kZstd };

/// Decompresses with libzstd and liblz4, each opened at its first use.
///
/// They are opened and not linked because their static libraries cannot go into a shared one, and
/// because a driver must not force its libraries on every program. Thread-safe.
class Decompressor {
 public:
  /// Where the libraries are: what dlopen takes.
  explicit Decompressor(std::string zstd = "libzstd.so.1", std::string lz4 = "liblz4.so.1")
      : zstd_{std::move(zstd), "ZSTD_decompress", {}, nullptr},
        lz4_{std::move(lz4), "LZ4_decompress_safe", {}, nullptr} {}

  /// The largest payload that is decompressed.
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 30;

  enum class Failure {
    kCorrupt,         ///< does not decompress to exactly the size that was announced
    kMissingLibrary,  ///< missing_library() says which
  };

  /// Decompresses `payload` to exactly `size` bytes, at most kMaxBytes. Linear.
  std::variant<std::vector<std::byte>, Failure> decompress(Compression compression,
                                                           std::span<const std::byte> payload,
                                                           std::size_t size);

  /// The library that `compression` needs, as it was looked for.
  [[nodiscard]] const std::string& library(Compression compression) const {
    return compression == Compression::kZstd ? zstd_.path : lz4_.path;
  }

 private:
  /// A library, and the one function that is used of it.
  struct Library {
    std::string path;
    const char* symbol;
    std::once_flag opened;
    void* function;
  };

  static void* open(Library& library);

  Library zstd_;
  Library lz4_;
};

}  // namespace simgpu

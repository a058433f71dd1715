// A decoded code image: kernels, parameter layouts, variables. Machine code is not kept.
#pragma once

#include <cstddef>
#include <string>
#include <variant>
#include <vector>

namespace simgpu {

/// Where one kernel parameter lies in the launch's parameter buffer, in bytes.
struct ParameterLayout {
  std::size_t offset = 0;
  std::size_t size = 0;

  friend bool operator==(const ParameterLayout&, const ParameterLayout&) = default;
};

/// Most bytes of parameters that a kernel can have (CUDA programming guide, compute capability 7.0
/// and up), rounded up to a word.
inline constexpr std::size_t kMaxParameterBytes = 32768;

/// What simgpu needs to know about a kernel's code, which it never executes.
struct KernelImage {
  std::string name;                         ///< Mangled.
  std::vector<ParameterLayout> parameters;  ///< In declaration order; ascending, disjoint.
  std::size_t static_shared_bytes = 0;      ///< Of one block.
  int registers = 0;                        ///< Of one thread; 0 where the image does not say.
  int max_threads = 0;                      ///< Launch bound of a block; 0: only the device's.
};

/// A variable of a module: where it lies in the module's data block, in bytes.
struct GlobalImage {
  std::string name;  ///< Mangled.
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

/// A piece of the data block that does not start as zeros.
struct InitialData {
  std::size_t offset = 0;
  std::vector<std::byte> bytes;
};

/// A loadable module, decoded: its kernels, and one data block that holds all its variables.
struct ModuleImage {
  std::vector<KernelImage> kernels;  ///< By name, unique.
  std::vector<GlobalImage> globals;  ///< By name, unique; each inside the data block.
  std::size_t data_bytes = 0;        ///< Size of the data block.
  std::vector<InitialData> initial;  ///< Disjoint, each inside the data block.
};

/// The most that a block of variables may take, in bytes: no device is larger.
inline constexpr std::uint64_t kMaxDataBytes = std::uint64_t{1} << 46;
/// What a variable of an image is aligned to at least, in bytes.
inline constexpr std::uint64_t kDataAlignment = 256;

/// Why an image cannot be loaded.
enum class ImageError {
  kInvalid,         ///< Not an image, cut short, or inconsistent.
  kInvalidPtx,      ///< PTX text that cannot be read.
  kNoBinary,        ///< A fat binary with nothing for any device.
  kNoDecompressor,  ///< Compressed, and the library to decompress it with is missing.
};

/// A refusal, with one line for the log.
struct ImageRefusal {
  ImageError error = ImageError::kInvalid;
  std::string reason;
};

/// An image, or why there is none.
using ImageResult = std::variant<ModuleImage, ImageRefusal>;

}  // namespace simgpu

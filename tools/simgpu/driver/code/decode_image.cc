#include "tools/simgpu/driver/code/decode_image.h"

#include <cstdio>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "tools/simgpu/driver/code/fat_binary.h"
#include "tools/simgpu/driver/code/process_plugins.h"
#include "tools/simgpu/driver/process/log.h"

namespace simgpu {
namespace {

CUresult code_of(ImageError error) {
  switch (error) {
    case ImageError::kInvalidPtx:
      return CUDA_ERROR_INVALID_PTX;
    case ImageError::kNoBinary:
      return CUDA_ERROR_NO_BINARY_FOR_GPU;
    case ImageError::kNoDecompressor:
      return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
    case ImageError::kInvalid:
      break;
  }
  return CUDA_ERROR_INVALID_IMAGE;
}

}  // namespace

CUresult decode_image(std::span<const std::byte> bytes, LoadedImagePtr* image) {
  static auto* const decompressor =
      new Decompressor;  // never destroyed: other threads may be inside
  if (const CUresult result = load_process_plugins(); result != CUDA_SUCCESS) return result;
  ImageResult decoded = read_image(ByteView(bytes), *decompressor);
  if (const auto* const refusal = std::get_if<ImageRefusal>(&decoded)) {
    log_line(LogLevel::kWarning, "a module cannot be loaded: %s", refusal->reason.c_str());
    return code_of(refusal->error);
  }
  *image = std::make_shared<const LoadedImage>(std::move(std::get<ModuleImage>(decoded)),
                                               process_plugins());
  return CUDA_SUCCESS;
}

CUresult decode_image_at(const void* address, LoadedImagePtr* image) {
  return decode_image(image_at(address).bytes(), image);
}

CUresult decode_image_file(const char* path, LoadedImagePtr* image) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path, "rbe"), &std::fclose);
  if (file == nullptr) return CUDA_ERROR_FILE_NOT_FOUND;
  std::vector<std::byte> bytes;
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  for (std::size_t got = kPiece; got == kPiece;) {
    const std::size_t size = bytes.size();
    bytes.resize(size + kPiece);
    got = std::fread(bytes.data() + size, 1, kPiece, file.get());
    bytes.resize(size + got);
  }
  return decode_image(bytes, image);
}

}  // namespace simgpu

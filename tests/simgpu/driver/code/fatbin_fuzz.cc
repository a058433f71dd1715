// Fuzz target: no bytes may make the readers of code images read outside, hang or crash.
#include <cstddef>
#include <cstdint>
#include <span>

#include "tools/simgpu/driver/code/fat_binary.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static simgpu::Decompressor& decompressor = *new simgpu::Decompressor;
  const simgpu::ByteView image(std::as_bytes(std::span(data, size)));
  (void)simgpu::read_image(image, decompressor);
  return 0;
}

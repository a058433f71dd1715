// Lists the by-value parameters of the kernels in a shared library: kernel_parameters LIBRARY.
//
// Prints "KERNELS<tab>BYTES<tab>TYPE" for each type and size of a parameter that is larger than a
// pointer, where KERNELS says how many kernels have it. Exit code 1 if the library cannot be read.
#include <elf.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tools/simgpu/driver/code/byte_view.h"
#include "tools/simgpu/driver/code/decompressor.h"
#include "tools/simgpu/driver/code/fat_binary.h"
#include "tools/simgpu/driver/code/kernel_signature.h"

namespace {

using simgpu::ByteView;

std::vector<std::byte> read_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  std::error_code error;
  std::vector<std::byte> bytes(file ? std::filesystem::file_size(path, error) : 0);
  if (error || !file.read(reinterpret_cast<char*>(bytes.data()),
                          static_cast<std::streamsize>(bytes.size()))) {
    return {};
  }
  return bytes;
}

/// The section of the ELF file `library` with the fat binaries; nullopt if there is none.
std::optional<ByteView> fat_binaries(ByteView library) {
  const auto header = library.load<Elf64_Ehdr>(0);
  if (!header) return std::nullopt;
  const auto section = [&](unsigned index) {
    return library.load<Elf64_Shdr>(header->e_shoff + std::uint64_t{index} * sizeof(Elf64_Shdr));
  };
  const auto names = section(header->e_shstrndx);
  for (unsigned i = 0; names && i < header->e_shnum; ++i) {
    const auto each = section(i);
    if (each && library.text(names->sh_offset + each->sh_name) == ".nv_fatbin") {
      return library.slice(each->sh_offset, each->sh_size);
    }
  }
  return std::nullopt;
}

using Parameters =
    std::map<std::pair<std::string, std::size_t>, unsigned>;  ///< of how many kernels

void count(const simgpu::ModuleImage& image, Parameters& counted) {
  for (const simgpu::KernelImage& kernel : image.kernels) {
    const simgpu::KernelSignature signature = simgpu::kernel_signature(kernel.name);
    if (signature.parameters.size() != kernel.parameters.size()) continue;
    for (std::size_t i = 0; i < kernel.parameters.size(); ++i) {
      if (kernel.parameters[i].size <= sizeof(void*)) continue;
      ++counted[{signature.parameters[i], kernel.parameters[i].size}];
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: kernel_parameters LIBRARY\n");
    return 1;
  }
  const std::vector<std::byte> bytes = read_file(argv[1]);
  const std::optional<ByteView> section = fat_binaries(ByteView(bytes));
  if (!section) {
    std::fprintf(stderr, "kernel_parameters: %s is no library with code for a GPU\n", argv[1]);
    return 1;
  }
  simgpu::Decompressor decompressor;
  Parameters counted;
  constexpr std::uint32_t kMagic = 0xba55ed50;
  constexpr std::uint64_t kAlignment = 8;
  for (std::uint64_t at = 0; at < section->size();) {
    const auto magic = section->load<std::uint32_t>(at);
    const auto header_size = section->load<std::uint16_t>(at + 6);
    const auto size = section->load<std::uint64_t>(at + 8);
    const auto image = magic == kMagic && header_size && size
                           ? section->slice(at, *header_size + *size)
                           : std::nullopt;
    if (!image) {
      at += kAlignment;  // between two images
      continue;
    }
    at += image->size();
    const simgpu::ImageResult result = simgpu::read_image(*image, decompressor);
    if (const auto* const refusal = std::get_if<simgpu::ImageRefusal>(&result)) {
      // A fat binary may hold code for devices of other generations only.
      if (refusal->error == simgpu::ImageError::kNoBinary) continue;
      std::fprintf(stderr, "kernel_parameters: %s\n", refusal->reason.c_str());
      return 1;
    }
    count(std::get<simgpu::ModuleImage>(result), counted);
  }
  for (const auto& [parameter, kernels] : counted) {
    std::printf("%u\t%zu\t%s\n", kernels, parameter.second, parameter.first.c_str());
  }
}

// read_cubin() on nvcc's own output, and on that output broken at every byte.
#include "tools/simgpu/driver/code/cubin.h"

#include <elf.h>

#include <cstring>
#include <memory>

#include "tests/simgpu/driver/support/test_images.h"

namespace simgpu {
namespace {

using ::testing::IsNull;
using ::testing::NotNull;

ImageResult read(const std::vector<std::byte>& bytes) { return read_cubin(ByteView(bytes)); }

/// Reads a copy that ends exactly where the heap block ends, so that memory checkers see a read
/// behind it.
ImageResult read_exact(const std::byte* bytes, std::size_t size) {
  const std::unique_ptr<std::byte[]> copy(new std::byte[size]);
  std::memcpy(copy.get(), bytes, size);
  return read_cubin(ByteView({copy.get(), size}));
}

TEST(ReadCubin, FindsParameterLayoutsOfNvccOutput) {
  expect_layouts(expect_image(read(read_test_image("kernels.cubin"))));
}

TEST(ReadCubin, FindsVariablesOfNvccOutput) {
  expect_variables(expect_image(read(read_test_image("kernels.cubin"))));
}

TEST(ReadCubin, KeepsVariablesApartInTheDataBlock) {
  const ModuleImage image = expect_image(read(read_test_image("kernels.cubin")));
  ASSERT_FALSE(image.globals.empty());
  for (const GlobalImage& one : image.globals) {
    EXPECT_LE(one.offset + one.bytes, image.data_bytes) << one.name;
    for (const GlobalImage& other : image.globals) {
      if (one.name != other.name) {
        EXPECT_TRUE(one.offset + one.bytes <= other.offset ||
                    other.offset + other.bytes <= one.offset)
            << one.name << " overlaps " << other.name;
      }
    }
  }
}

TEST(ReadCubin, DoesNotTakeDeviceFunctionsForKernels) {
  const ModuleImage image = expect_image(read(read_test_image("kernels.cubin")));
  EXPECT_THAT(find_kernel(image, "_Z6helperPKfi"), IsNull());
}

TEST(ReadCubin, FindsSharedMemoryRegistersAndLaunchBounds) {
  const ModuleImage image = expect_image(read(read_test_image("kernels.cubin")));
  const KernelImage* const copy = find_kernel(image, kCopyName);
  const KernelImage* const bounded = find_kernel(image, kBoundedName);
  ASSERT_THAT(copy, NotNull());
  ASSERT_THAT(bounded, NotNull());
  EXPECT_EQ(copy->static_shared_bytes, 64 * sizeof(double));
  EXPECT_GT(copy->registers, 0);
  EXPECT_EQ(copy->max_threads, 0);
  EXPECT_EQ(bounded->static_shared_bytes, 0U);
  EXPECT_EQ(bounded->max_threads, 128);
}

TEST(ReadCubin, RefusesEveryTruncation) {
  const std::vector<std::byte> bytes = read_test_image("kernels.cubin");
  // The program headers come last and are not read: an image that only lacks them is whole.
  Elf64_Ehdr header;
  ASSERT_GE(bytes.size(), sizeof(header));
  std::memcpy(&header, bytes.data(), sizeof(header));
  const std::size_t needed = header.e_shoff + header.e_shnum * sizeof(Elf64_Shdr);
  for (std::size_t size = 0; size < needed; ++size) {
    ASSERT_EQ(expect_refusal(read_exact(bytes.data(), size)), ImageError::kInvalid) << size;
  }
  expect_layouts(expect_image(read_exact(bytes.data(), needed)));
}

TEST(ReadCubin, SurvivesEveryCorruptByte) {
  // Not every byte matters to the reader, so either answer is right; what must hold is that an
  // accepted image keeps the promises that launches rely on.
  const std::vector<std::byte> bytes = read_test_image("kernels.cubin");
  ASSERT_FALSE(bytes.empty());
  int refused = 0;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::vector<std::byte> broken = bytes;
    for (const std::byte value : {std::byte{0xff}, ~bytes[at]}) {
      broken[at] = value;
      const ImageResult result = read(broken);
      if (const auto* const image = std::get_if<ModuleImage>(&result)) {
        for (const KernelImage& kernel : image->kernels) {
          std::size_t end = 0;
          for (const ParameterLayout& parameter : kernel.parameters) {
            ASSERT_GE(parameter.offset, end) << at;
            ASSERT_GT(parameter.size, 0U) << at;
            end = parameter.offset + parameter.size;
          }
          ASSERT_LE(end, kMaxParameterBytes) << at;
        }
        for (const GlobalImage& global : image->globals) {
          ASSERT_LE(global.offset + global.bytes, image->data_bytes) << at;
        }
        for (const InitialData& initial : image->initial) {
          ASSERT_LE(initial.offset + initial.bytes.size(), image->data_bytes) << at;
        }
      } else {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 500);
}

TEST(ReadCubin, RefusesElfOfAnotherMachine) {
  std::vector<std::byte> bytes = read_test_image("kernels.cubin");
  const Elf64_Half machine = EM_X86_64;
  std::memcpy(bytes.data() + offsetof(Elf64_Ehdr, e_machine), &machine, sizeof(machine));
  EXPECT_EQ(expect_refusal(read(bytes)), ImageError::kInvalid);
}

TEST(ReadCubin, RefusesParametersThatOverlap) {
  std::vector<std::byte> bytes = read_test_image("kernels.cubin");
  // The layout record of add's parameter 1: attribute 0x17, 12 bytes, ordinal 1, offset 8, size 8.
  const unsigned char record[] = {0x04, 0x17, 0x0c, 0x00, 0x00, 0x00,
                                  0x00, 0x00, 0x01, 0x00, 0x08, 0x00};
  auto at = std::search(bytes.begin(), bytes.end(), std::begin(record), std::end(record),
                        [](std::byte a, unsigned char b) { return a == std::byte{b}; });
  ASSERT_NE(at, bytes.end());
  *(at + 10) = std::byte{4};  // offset 4: inside parameter 0
  EXPECT_EQ(expect_refusal(read(bytes)), ImageError::kInvalid);
}

TEST(ElfExtent, IsTheWholeImage) {
  const std::vector<std::byte> bytes = read_test_image("kernels.cubin");
  EXPECT_EQ(elf_extent(bytes.data()), bytes.size());
}

TEST(ElfExtent, IsZeroForAnythingElse) {
  const std::vector<std::byte> bytes = read_test_image("kernels.fatbin");
  EXPECT_EQ(elf_extent(bytes.data()), 0U);
}

}  // namespace
}  // namespace simgpu

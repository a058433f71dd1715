// read_image() on fat binaries as nvcc writes them: plain, compressed either way, with several
// architectures, with PTX only; and on broken ones.
#include "tools/simgpu/driver/code/fat_binary.h"

#include <cstring>
#include <memory>

#include "tests/simgpu/driver/support/test_images.h"

namespace simgpu {
namespace {

ImageResult read_bytes(const std::vector<std::byte>& bytes,
                       unsigned capability = kComputeCapability) {
  Decompressor decompressor;
  return read_image(ByteView(bytes), decompressor, capability);
}

// Fields of the first entry, behind the fat binary's header of 16 bytes.
constexpr std::size_t kKind = 16;
constexpr std::size_t kFlags = 16 + 40;
constexpr std::uint64_t kLz4Flag = 0x2000;
constexpr std::uint64_t kZstdFlag = 0x8000;

template <typename T>
T field(const std::vector<std::byte>& bytes, std::size_t offset) {
  T value{};
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

class ReadImageOfNvccOutput : public ::testing::TestWithParam<const char*> {};

TEST_P(ReadImageOfNvccOutput, FindsLayoutsAndVariables) {
  const ModuleImage image = expect_image(read_bytes(read_test_image(GetParam())));
  expect_layouts(image);
  expect_variables(image);
  const KernelImage* const copy = find_kernel(image, kCopyName);
  ASSERT_NE(copy, nullptr);
  EXPECT_EQ(copy->static_shared_bytes, 64 * sizeof(double));
}

INSTANTIATE_TEST_SUITE_P(Images, ReadImageOfNvccOutput,
                         ::testing::Values("kernels.cubin", "kernels.fatbin", "kernels.zstd.fatbin",
                                           "kernels.lz4.fatbin", "kernels.several.fatbin",
                                           "kernels.ptx.fatbin", "kernels.ptx",
                                           "kernels.debug.cubin", "kernels.sm_100.cubin"),
                         [](const auto& instance) {
                           std::string name = instance.param;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

TEST(ReadImage, IsTestedOnEveryCompression) {
  // Were nvcc to change its defaults, the tests above would say nothing about these readers.
  EXPECT_EQ(
      field<std::uint64_t>(read_test_image("kernels.fatbin"), kFlags) & (kLz4Flag | kZstdFlag), 0U);
  EXPECT_EQ(
      field<std::uint64_t>(read_test_image("kernels.zstd.fatbin"), kFlags) & (kLz4Flag | kZstdFlag),
      kZstdFlag);
  EXPECT_EQ(
      field<std::uint64_t>(read_test_image("kernels.lz4.fatbin"), kFlags) & (kLz4Flag | kZstdFlag),
      kLz4Flag);
  EXPECT_EQ(field<std::uint16_t>(read_test_image("kernels.ptx.fatbin"), kKind), 1U);
}

/// A fat binary of entries, each PTX or a cubin, as fatbinary(1) lays them out.
class FatBinaryBuilder {
 public:
  FatBinaryBuilder& add(std::uint16_t kind, std::uint32_t capability,
                        std::vector<std::byte> payload) {
    payload.resize((payload.size() + 7) / 8 * 8);
    std::vector<std::byte> header(64);
    put<std::uint16_t>(header, 0, kind);
    put<std::uint16_t>(header, 2, 0x101);
    put<std::uint32_t>(header, 4, 64);
    put<std::uint64_t>(header, 8, payload.size());
    put<std::uint32_t>(header, 28, capability);
    entries_.insert(entries_.end(), header.begin(), header.end());
    entries_.insert(entries_.end(), payload.begin(), payload.end());
    return *this;
  }

  FatBinaryBuilder& add_ptx(std::uint32_t capability, const std::string& kernel) {
    const std::string text = ".version 9.0\n.target sm_90\n.address_size 64\n.entry " + kernel +
                             "(.param .u64 p) { ret; }\n";
    const auto* const begin = reinterpret_cast<const std::byte*>(text.c_str());
    return add(1, capability, {begin, begin + text.size() + 1});
  }

  [[nodiscard]] std::vector<std::byte> bytes() const {
    std::vector<std::byte> all(16);
    all.insert(all.end(), entries_.begin(), entries_.end());
    put<std::uint32_t>(all, 0, 0xba55ed50);
    put<std::uint16_t>(all, 4, 1);
    put<std::uint16_t>(all, 6, 16);
    put<std::uint64_t>(all, 8, entries_.size());
    return all;
  }

  template <typename T>
  static void put(std::vector<std::byte>& bytes, std::size_t offset, T value) {
    std::memcpy(bytes.data() + offset, &value, sizeof(T));
  }

 private:
  std::vector<std::byte> entries_;
};

constexpr std::uint16_t kElf = 2;

/// A cubin that can be told from others by the name of its one kernel that was called `nothing`.
std::vector<std::byte> cubin_named(const std::string& name) {
  std::vector<std::byte> bytes = read_test_image("kernels.cubin");
  const std::string from = "nothing";
  EXPECT_EQ(name.size(), from.size());
  for (std::size_t at = 0; at + from.size() <= bytes.size(); ++at) {
    if (std::memcmp(bytes.data() + at, from.data(), from.size()) == 0) {
      std::memcpy(bytes.data() + at, name.data(), name.size());
    }
  }
  return bytes;
}

bool has(const std::vector<std::byte>& fat_binary, const std::string& kernel) {
  return find_kernel(expect_image(read_bytes(fat_binary)), kernel) != nullptr;
}

TEST(ReadImage, PrefersMachineCodeOfTheDevice) {
  EXPECT_TRUE(has(FatBinaryBuilder()
                      .add_ptx(90, "ptx_one")
                      .add(kElf, 80, cubin_named("eighty_"))
                      .add(kElf, 90, cubin_named("ninety_"))
                      .add(kElf, 100, cubin_named("hundred"))
                      .bytes(),
                  "ninety_"));
}

TEST(ReadImage, PrefersTheSameGenerationToAnyOther) {
  const auto fat_binary = FatBinaryBuilder()
                              .add(kElf, 100, cubin_named("hundred"))
                              .add(kElf, 80, cubin_named("eighty_"))
                              .add(kElf, 86, cubin_named("eight_6"))
                              .bytes();
  EXPECT_NE(find_kernel(expect_image(read_bytes(fat_binary, 89)), "eight_6"), nullptr);
}

TEST(ReadImage, TakesCodeOfAnotherGenerationRatherThanPtx) {
  EXPECT_TRUE(
      has(FatBinaryBuilder().add_ptx(90, "ptx_one").add(kElf, 80, cubin_named("eighty_")).bytes(),
          "eighty_"));
}

TEST(ReadImage, TakesTheNewestPtxWithoutMachineCode) {
  EXPECT_TRUE(has(FatBinaryBuilder().add_ptx(75, "older").add_ptx(80, "newer").bytes(), "newer"));
}

TEST(ReadImage, SaysThatThereIsNoBinaryInAnEmptyFatBinary) {
  EXPECT_EQ(expect_refusal(read_bytes(FatBinaryBuilder().bytes())), ImageError::kNoBinary);
  EXPECT_EQ(expect_refusal(read_bytes(FatBinaryBuilder().add(9, 90, {}).bytes())),
            ImageError::kNoBinary);
}

TEST(ReadImage, NamesTheLibraryThatIsMissing) {
  Decompressor nowhere("libno-such-zstd.so.1", "libno-such-lz4.so.1");
  for (const char* const name : {"kernels.zstd.fatbin", "kernels.lz4.fatbin"}) {
    const std::vector<std::byte> bytes = read_test_image(name);
    const ImageResult result = read_image(ByteView(bytes), nowhere);
    ASSERT_TRUE(std::holds_alternative<ImageRefusal>(result)) << name;
    const auto& refusal = std::get<ImageRefusal>(result);
    EXPECT_EQ(refusal.error, ImageError::kNoDecompressor);
    EXPECT_THAT(refusal.reason, ::testing::HasSubstr("libno-such-"));
    EXPECT_THAT(refusal.reason, ::testing::HasSubstr("install"));
  }
}

TEST(ReadImage, RefusesWhatIsNoImage) {
  for (const std::string text : {"", "x", "PK\x03\x04", "int main() {}"}) {
    const ByteView view(std::as_bytes(std::span(text)));
    Decompressor decompressor;
    EXPECT_EQ(expect_refusal(read_image(view, decompressor)), ImageError::kInvalid) << text;
  }
}

TEST(ReadImage, RefusesEveryTruncation) {
  Decompressor decompressor;
  for (const char* const name : {"kernels.zstd.fatbin", "kernels.lz4.fatbin"}) {
    const std::vector<std::byte> bytes = read_test_image(name);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      const std::unique_ptr<std::byte[]> copy(new std::byte[size]);  // a checker sees its end
      std::memcpy(copy.get(), bytes.data(), size);
      const ImageResult result = read_image(ByteView({copy.get(), size}), decompressor);
      ASSERT_EQ(expect_refusal(result), ImageError::kInvalid) << name << " cut at " << size;
    }
  }
}

TEST(ReadImage, SurvivesEveryCorruptByte) {
  Decompressor decompressor;
  for (const char* const name : {"kernels.zstd.fatbin", "kernels.lz4.fatbin"}) {
    const std::vector<std::byte> bytes = read_test_image(name);
    ASSERT_FALSE(bytes.empty());
    int refused = 0;
    for (std::size_t at = 0; at < bytes.size(); ++at) {
      std::vector<std::byte> broken = bytes;
      broken[at] = ~broken[at];
      const ImageResult result = read_image(ByteView(broken), decompressor);
      refused += std::holds_alternative<ImageRefusal>(result) ? 1 : 0;
    }
    EXPECT_GT(refused, static_cast<int>(bytes.size() / 10)) << name;
  }
}

TEST(ReadImage, RefusesAnnouncedSizesThatNoMemoryHolds) {
  std::vector<std::byte> bytes = read_test_image("kernels.zstd.fatbin");
  FatBinaryBuilder::put<std::uint64_t>(bytes, 16 + 56, std::uint64_t{1} << 60);
  EXPECT_EQ(expect_refusal(read_bytes(bytes)), ImageError::kInvalid);
}

TEST(ImageAt, FindsTheExtentOfEveryKind) {
  for (const char* const name : {"kernels.cubin", "kernels.fatbin", "kernels.zstd.fatbin"}) {
    const std::vector<std::byte> bytes = read_test_image(name);
    EXPECT_EQ(image_at(bytes.data()).size(), bytes.size()) << name;
  }
  EXPECT_EQ(image_at(".version 9.0").size(), 12U);
  EXPECT_EQ(image_at("").size(), 0U);
}

TEST(ImageAt, FollowsTheWrapperThatNvccEmbeds) {
  const std::vector<std::byte> bytes = read_test_image("kernels.fatbin");
  struct {
    std::uint32_t magic = 0x466243b1;
    std::uint32_t version = 1;
    const void* data = nullptr;
    void* unused = nullptr;
  } wrapper;
  EXPECT_EQ(image_at(&wrapper).size(), 0U);
  wrapper.data = bytes.data();
  const ByteView found = image_at(&wrapper);
  EXPECT_EQ(found.bytes().data(), bytes.data());
  EXPECT_EQ(found.size(), bytes.size());
}

}  // namespace
}  // namespace simgpu

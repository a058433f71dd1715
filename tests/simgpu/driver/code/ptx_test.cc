// read_ptx() on what the grammar allows, and on text that is broken.
#include "tools/simgpu/driver/code/ptx.h"

#include "tests/simgpu/driver/support/test_images.h"

namespace simgpu {
namespace {

using ::testing::ElementsAre;
using L = ParameterLayout;

constexpr const char* kHeader = ".version 9.0\n.target sm_90\n.address_size 64\n";

ImageResult read(const std::string& text) { return read_ptx(text); }

ModuleImage read_body(const std::string& body) { return expect_image(read(kHeader + body)); }

TEST(ReadPtx, LaysOutParametersByTheirAlignment) {
  const ModuleImage image = read_body(
      ".visible .entry k(\n  .param .u8 a,\n  .param .u16 b, .param .b32 c, .param .f64 d,\n"
      "  .param .align 8 .b8 e[32], .param .s8 f, .param .u64 g\n) { ret; }");
  EXPECT_THAT(parameters_of(image, "k"),
              ElementsAre(L{0, 1}, L{2, 2}, L{4, 4}, L{8, 8}, L{16, 32}, L{48, 1}, L{56, 8}));
}

TEST(ReadPtx, TakesThePointeesAlignmentForWhatItIs) {
  const ModuleImage image =
      read_body(".entry k(.param .u32 n, .param .u64 .ptr .global .align 256 p) { ret; }");
  EXPECT_THAT(parameters_of(image, "k"), ElementsAre(L{0, 4}, L{8, 8}));
}

TEST(ReadPtx, KnowsPackedAndWideTypes) {
  const ModuleImage image = read_body(
      ".entry k(.param .f16x2 a, .param .bf16 b, .param .b128 c, .param .align 64 .b8 m[128])"
      "{ ret; }");
  EXPECT_THAT(parameters_of(image, "k"), ElementsAre(L{0, 4}, L{4, 2}, L{16, 16}, L{64, 128}));
}

TEST(ReadPtx, ReadsKernelsWithoutParameters) {
  EXPECT_THAT(parameters_of(read_body(".entry one() { ret; }"), "one"), ElementsAre());
  EXPECT_THAT(parameters_of(read_body(".entry two { ret; }"), "two"), ElementsAre());
}

TEST(ReadPtx, SkipsCommentsStringsAndNestedBlocks) {
  const ModuleImage image = read_body(
      "// .entry no1() {}\n/* .entry no2() { */\n.file 1 \".entry no3() {\"\n"
      ".entry yes(.param .u64 p) { { .reg .b32 r; } // }\n /* } */ ret; }\n"
      ".section .debug_info { .b8 1 { .b8 2 } }\n.entry last(.param .u8 c) { ret; }");
  ASSERT_EQ(image.kernels.size(), 2U);
  EXPECT_THAT(parameters_of(image, "yes"), ElementsAre(L{0, 8}));
  EXPECT_THAT(parameters_of(image, "last"), ElementsAre(L{0, 1}));
}

TEST(ReadPtx, ReadsDirectivesBehindTheParameters) {
  const ModuleImage image = read_body(
      ".entry k(.param .u64 p) .maxntid 128, 2, 1 .minnctapersm 1 { .shared .align 4 .b8 s[100];"
      " .shared .align 8 .f64 t[4]; ret; }");
  ASSERT_EQ(image.kernels.size(), 1U);
  EXPECT_EQ(image.kernels[0].max_threads, 256);
  EXPECT_EQ(image.kernels[0].static_shared_bytes, 104U + 32U);
}

TEST(ReadPtx, LeavesFunctionsAndDeclarationsOut) {
  const ModuleImage image = read_body(
      ".extern .func (.param .b32 r) printf(.param .b64 f);\n.func helper(.param .b32 x) { ret; }\n"
      ".entry later(.param .u64 p);\n.entry k(.param .u32 n) { ret; }");
  ASSERT_EQ(image.kernels.size(), 1U);
  EXPECT_EQ(image.kernels[0].name, "k");
}

TEST(ReadPtx, ReadsVariablesAndTheirValues) {
  const ModuleImage image = read_body(
      ".visible .global .align 4 .u32 counter = 7;\n.global .align 4 .f32 half = 0f3F000000;\n"
      ".const .align 2 .b16 list[3] = {1, -2, 0x10};\n.global .align 8 .f64 rows[2][3];\n"
      ".extern .global .u32 elsewhere;\n.global .b8 text[] = {104, 105, 0};\n"
      ".global .u64 address = generic(counter) + 4;\n.global .attribute(.managed) .u32 shared;\n");
  EXPECT_THAT(as<int>(value_of(image, "counter")), ElementsAre(7));
  EXPECT_THAT(as<float>(value_of(image, "half")), ElementsAre(0.5F));
  EXPECT_THAT(as<short>(value_of(image, "list")), ElementsAre(1, -2, 16));
  EXPECT_EQ(value_of(image, "rows").size(), 48U);
  EXPECT_THAT(as<char>(value_of(image, "text")), ElementsAre('h', 'i', '\0'));
  EXPECT_THAT(as<long>(value_of(image, "address")), ElementsAre(0));
  EXPECT_EQ(value_of(image, "shared").size(), 4U);
  EXPECT_EQ(image.globals.size(), 7U);
}

struct BrokenText {
  const char* name;
  const char* text;

  friend void PrintTo(const BrokenText& broken, std::ostream* out) { *out << broken.text; }
};

class ReadPtxOfBrokenText : public ::testing::TestWithParam<BrokenText> {};

TEST_P(ReadPtxOfBrokenText, SaysThatItIsInvalid) {
  EXPECT_EQ(expect_refusal(read(std::string(kHeader) + GetParam().text)), ImageError::kInvalidPtx);
}

INSTANTIATE_TEST_SUITE_P(
    Texts, ReadPtxOfBrokenText,
    ::testing::Values(
        BrokenText{"EntryAlone", ".entry"}, BrokenText{"NoNameOfTheEntry", ".entry ("},
        BrokenText{"NoEndOfTheParameters", ".entry k("},
        BrokenText{"NothingBehindParam", ".entry k(.param"},
        BrokenText{"NoNameOfTheParameter", ".entry k(.param .u64"},
        BrokenText{"NoEndBehindTheParameter", ".entry k(.param .u64 p"},
        BrokenText{"NoBody", ".entry k(.param .u64 p)"},
        BrokenText{"NoEndOfTheBody", ".entry k(.param .u64 p) {"},
        BrokenText{"ParameterWithoutAType", ".entry k(.param p) {}"},
        BrokenText{"ParameterInARegister", ".entry k(.reg .u64 p) {}"},
        BrokenText{"ParameterOfAnUnknownType", ".entry k(.param .u65 p) {}"},
        BrokenText{"NoEndOfTheArraysSize", ".entry k(.param .b8 p[) {}"},
        BrokenText{"ArrayOfNegativeSize", ".entry k(.param .b8 p[-1]) {}"},
        BrokenText{"ArrayOfAnEndlessSize", ".entry k(.param .b8 p[99999999999999999999]) {}"},
        BrokenText{"ArrayThatIsTooLarge", ".entry k(.param .b8 p[32769]) {}"},
        BrokenText{"AlignmentThatIsNoPowerOfTwo", ".entry k(.param .align 3 .b8 p[4]) {}"},
        BrokenText{"AlignmentOfZero", ".entry k(.param .align 0 .b8 p[4]) {}"},
        BrokenText{"NoEndOfTheVariable", ".global .u32 x"},
        BrokenText{"MoreValuesThanElements", ".global .b8 x[4] = {1, 2, 3, 4, 5};"},
        BrokenText{"VariableOfAnOverflowingSize", ".global .b8 x[4611686018427387904][8];"},
        BrokenText{"NoEndOfTheComment", "/* never closed"},
        BrokenText{"NoEndOfTheText", "\"never closed"},
        BrokenText{"NumberOfThreadsThatIsNone", ".entry k() .maxntid x {}"}),
    [](const auto& broken) { return broken.param.name; });

TEST(ReadPtx, RefusesTextWithoutVersion) {
  EXPECT_EQ(expect_refusal(read("")), ImageError::kInvalidPtx);
  EXPECT_EQ(expect_refusal(read("// nothing")), ImageError::kInvalidPtx);
  EXPECT_EQ(expect_refusal(read(".entry k() { ret; }")), ImageError::kInvalidPtx);
}

TEST(ReadPtx, SurvivesNvccOutputCutAndBrokenAnywhere) {
  const std::vector<std::byte> bytes = read_test_image("kernels.ptx");
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  ASSERT_GT(text.size(), 1000U);
  for (std::size_t at = 0; at < text.size(); ++at) {
    (void)read(text.substr(0, at));
    for (const char c : {'{', '}', '"', '\0', '('}) {
      std::string broken = text;
      broken[at] = c;
      const ImageResult result = read(broken);
      if (const auto* const image = std::get_if<ModuleImage>(&result)) {
        for (const GlobalImage& global : image->globals) {
          ASSERT_LE(global.offset + global.bytes, image->data_bytes);
        }
      }
    }
  }
}

}  // namespace
}  // namespace simgpu

#include "examples/minilm/tokenizer.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "examples/minilm/unicode.h"
#include "tests/temporary_folder.h"

namespace minilm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Ids:                     0      1      2      3    4     5    6    7    8      9      10
constexpr char kPieces[] = "[UNK]\n[CLS]\n[SEP]\nun\n##aff\n##able\n,\n!\ncafe\nstrasse\n漢\n";
constexpr int kPieceCount = 11;
constexpr int kUnknown = 0;
constexpr int kCls = 1;
constexpr int kSep = 2;

class VocabularyFile {
 public:
  explicit VocabularyFile(const char* content) {
    path_ = folder_ + "/file";
    std::ofstream(path_) << content;
  }
  VocabularyFile(const VocabularyFile&) = delete;
  VocabularyFile& operator=(const VocabularyFile&) = delete;
  ~VocabularyFile() { std::filesystem::remove_all(folder_); }

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  const std::string folder_ = superpipe::make_temporary_folder("tokenizer_test");
  std::string path_;
};

std::vector<int> encode(std::string_view text, std::size_t most = 100) {
  const VocabularyFile file(kPieces);
  return Tokenizer(file.path(), kPieceCount).encode(text, most);
}

TEST(Tokenizer, TakesTheLongestPiecesFirst) {
  EXPECT_THAT(encode("unaffable"), ElementsAre(kCls, 3, 4, 5, kSep));
}

TEST(Tokenizer, MakesAWordWithOneUnknownPieceUnknown) {
  EXPECT_THAT(encode("unaffine un"), ElementsAre(kCls, kUnknown, 3, kSep));
}

TEST(Tokenizer, SeparatesPunctuationAndIdeographs) {
  EXPECT_THAT(encode("un,un!!"), ElementsAre(kCls, 3, 6, 3, 7, 7, kSep));
  EXPECT_THAT(encode("un漢漢"), ElementsAre(kCls, 3, 10, 10, kSep));
}

TEST(Tokenizer, FoldsCaseAndAccents) {
  EXPECT_THAT(encode("CAFÉ café cafe\u0301"), ElementsAre(kCls, 8, 8, 8, kSep));
  EXPECT_THAT(encode("straße"), ElementsAre(kCls, kUnknown, kSep));  // ß is a letter of its own
}

TEST(Tokenizer, IgnoresControlsAndWhatIsNotUtf8) {
  EXPECT_THAT(encode(std::string_view("u\0n\x07 \xff\xc3un\u200b", 12)),
              ElementsAre(kCls, 3, 3, kSep));
}

TEST(Tokenizer, GivesTheFrameAloneForNothing) {
  EXPECT_THAT(encode(""), ElementsAre(kCls, kSep));
  EXPECT_THAT(encode(" \t\u3000 "), ElementsAre(kCls, kSep));
}

TEST(Tokenizer, CutsAtTheLimitButKeepsTheEnd) {
  EXPECT_THAT(encode("un un un", 4), ElementsAre(kCls, 3, 3, kSep));
  EXPECT_THAT(encode("unaffable un", 4), ElementsAre(kCls, 3, 4, kSep));
  EXPECT_THAT(encode("un", 2), ElementsAre(kCls, kSep));
}

TEST(Tokenizer, MakesAVeryLongWordUnknown) {
  EXPECT_THAT(encode(std::string(101, 'u') + " un"), ElementsAre(kCls, kUnknown, 3, kSep));
}

TEST(Tokenizer, RefusesAnotherVocabulary) {
  const VocabularyFile file(kPieces);
  EXPECT_THAT([&] { Tokenizer(file.path(), kPieceCount + 1); },
              ThrowsMessage<std::runtime_error>(HasSubstr("has 11 lines")));
  const VocabularyFile plain("a\nb\n");
  EXPECT_THAT([&] { Tokenizer(plain.path(), 2); },
              ThrowsMessage<std::runtime_error>(HasSubstr("has no [CLS]")));
  EXPECT_THAT([] { Tokenizer("/nonexistent/vocab.txt", 2); },
              ThrowsMessage<std::runtime_error>(HasSubstr("/nonexistent/vocab.txt")));
}

TEST(DecodeUtf8, ReplacesEachBadByte) {
  EXPECT_EQ(decode_utf8("a\u00e9\u6f22\U0001F600"), U"a\u00e9\u6f22\U0001F600");
  EXPECT_EQ(decode_utf8("\xc3"), U"\ufffd");                                // cut off
  EXPECT_EQ(decode_utf8("\xc0\x80"), U"\ufffd\ufffd");                      // overlong
  EXPECT_EQ(decode_utf8("\xed\xa0\x80"), U"\ufffd\ufffd\ufffd");            // a surrogate
  EXPECT_EQ(decode_utf8("\xf4\x90\x80\x80"), U"\ufffd\ufffd\ufffd\ufffd");  // past U+10FFFF
}

TEST(EncodeUtf8, IsTheInverseOfDecoding) {
  std::u32string all;
  for (char32_t code = 0; code <= 0x10FFFF; code += 61) {
    if (code < 0xD800 || code > 0xDFFF) all.push_back(code);
  }
  EXPECT_EQ(decode_utf8(encode_utf8(all)), all);
}

TEST(AppendFolded, DecomposesHangulByArithmetic) {
  std::u32string folded;
  append_folded(U'\uD55C', &folded);  // han: three letters
  append_folded(U'\uAC00', &folded);  // ga: two
  EXPECT_EQ(folded, U"\u1112\u1161\u11AB\u1100\u1161");
}

}  // namespace
}  // namespace minilm

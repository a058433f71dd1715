#include "tools/superpipe/export_pickle.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>

#include "tests/tools/export_testing.h"

namespace superpipe::cli {
namespace {

std::string bytes_of(std::uint64_t number) {
  TextSink sink;
  PickleWriter(sink).write(number);
  return sink.text;
}

TEST(PickleWriter, WritesNumbersAsPythonDoes) {
  using namespace std::string_literals;
  // As pickletools.dis() shows of pickle.dumps(number, 4).
  for (const auto& [number, bytes] :
       {std::pair(std::uint64_t{0}, "K\0"s),
        {0xFF, "K\xFF"s},
        {0x100, "M\0\x01"s},
        {0xFFFF, "M\xFF\xFF"s},
        {0x10000, "J\0\0\x01\0"s},
        {0x7FFF'FFFF, "J\xFF\xFF\xFF\x7F"s},
        {0x8000'0000, "\x8A\x05\0\0\0\x80\0"s},
        {0x7F'FFFF'FFFF, "\x8A\x05\xFF\xFF\xFF\xFF\x7F"s},
        {0x80'0000'0000, "\x8A\x06\0\0\0\0\x80\0"s},
        {~std::uint64_t{0}, "\x8A\x09\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\0"s}}) {
    EXPECT_EQ(bytes_of(number), bytes) << number;
  }
}

TEST(PickleWriter, WritesAWordOnce) {
  using namespace std::string_literals;
  TextSink sink;
  PickleWriter writer(sink);
  writer.write_word("size");
  writer.write_word("addr");
  writer.write_word("size");
  EXPECT_EQ(sink.text, "\x8C\x04size\x94\x8C\x04"s + "addr\x94h\0"s);
}

TEST(PickleWriter, WritesLongTextsAndManyWords) {
  using namespace std::string_literals;
  TextSink sink;
  PickleWriter writer(sink);
  writer.write_text(std::string(256, 'x'));
  EXPECT_EQ(sink.text, "X\0\x01\0\0"s + std::string(256, 'x'));
  for (int i = 0; i < 256; ++i) writer.write_word(std::to_string(i));
  sink.text.clear();
  writer.write_word("255");
  writer.write_kept(256);
  EXPECT_EQ(sink.text, "h\xFFj\0\x01\0\0"s);
}

}  // namespace
}  // namespace superpipe::cli

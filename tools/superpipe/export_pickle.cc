#include "tools/superpipe/export_pickle.h"

#include <cstddef>
#include <utility>

namespace superpipe::cli {
namespace {

// `count` bytes of `number`, low ones first.
std::string little_endian(std::uint64_t number, std::size_t count) {
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) {
    bytes += static_cast<char>(i < sizeof number ? number >> (8 * i) & 0xFF : 0);
  }
  return bytes;
}

}  // namespace

void PickleWriter::begin() { out_.write("\x80\x04"); }

void PickleWriter::finish() { out_.write("."); }

void PickleWriter::write(std::uint64_t number) {
  if (number <= 0xFF) {
    out_.write("K" + little_endian(number, 1));
  } else if (number <= 0xFFFF) {
    out_.write("M" + little_endian(number, 2));
  } else if (number <= 0x7FFF'FFFF) {
    out_.write("J" + little_endian(number, 4));
  } else {
    // LONG1 is signed: the topmost bit stays clear.
    std::size_t bytes = 4;
    while (bytes < 9 && number >> (8 * bytes - 1) != 0) ++bytes;
    out_.write("\x8A" + little_endian(bytes, 1) + little_endian(number, bytes));
  }
}

void PickleWriter::write_text(std::string_view text) {
  if (text.size() <= 0xFF) {
    out_.write("\x8C" + little_endian(text.size(), 1));
  } else {
    out_.write("X" + little_endian(text.size(), 4));
  }
  out_.write(text);
}

void PickleWriter::write_word(std::string_view word) {
  std::string key(word);
  const auto known = words_.find(key);
  if (known != words_.end()) return write_kept(known->second);
  write_text(word);
  words_.emplace(std::move(key), keep());
}

std::uint32_t PickleWriter::keep() {
  out_.write("\x94");
  return kept_++;
}

void PickleWriter::write_kept(std::uint32_t kept) {
  if (kept <= 0xFF) {
    out_.write("h" + little_endian(kept, 1));
  } else {
    out_.write("j" + little_endian(kept, 4));
  }
}

}  // namespace superpipe::cli

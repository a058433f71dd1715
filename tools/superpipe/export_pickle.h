// Python's pickles, written piece by piece.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "tools/superpipe/export_sink.h"

namespace superpipe::cli {

/// Writes one value in protocol 4 (Python 3.4 and newer): the calls follow its nesting.
///
/// A dict is open_dict(), then a word and a value each, then close_dict(); a list is open_list(),
/// its values, close_list(). Only opcodes that Python's own pickler uses for such values, because
/// other readers know no others (Python's Lib/pickletools.py describes them).
class PickleWriter {
 public:
  /// `out` must outlive it.
  explicit PickleWriter(ExportSink& out) : out_(out) {}

  void begin();
  void finish();
  void open_dict() { out_.write("}("); }
  void close_dict() { out_.write("u"); }
  void open_list() { out_.write("]("); }
  void close_list() { out_.write("e"); }
  /// Between two values of a list, so that a reader's stack stays short.
  void flush_list() { out_.write("e("); }
  void write(std::uint64_t number);
  void write_bool(bool value) { out_.write(value ? "\x88" : "\x89"); }
  /// A text that comes once. REQUIRES: it is UTF-8, or Python refuses the whole file.
  void write_text(std::string_view text);
  /// A text that comes often, such as a dict's key: written once, and then referred to.
  void write_word(std::string_view word);

  /// Keeps the list or dict that was closed last. @return what write_kept() takes.
  std::uint32_t keep();
  /// The same list or dict again, not another one that is equal.
  void write_kept(std::uint32_t kept);

 private:
  ExportSink& out_;
  std::uint32_t kept_ = 0;
  std::unordered_map<std::string, std::uint32_t> words_;
};

}  // namespace superpipe::cli

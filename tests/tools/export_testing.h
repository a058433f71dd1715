// What the tests of exported formats write to.
#pragma once

#include <string>
#include <string_view>

#include "tools/superpipe/export_sink.h"

namespace superpipe::cli {

/// Keeps what is written.
class TextSink final : public ExportSink {
 public:
  void write(std::string_view bytes) override { text.append(bytes); }
  std::string text;
};

}  // namespace superpipe::cli

#include "tools/superpipe/report/report_page.h"

#include <array>
#include <string_view>
#include <utility>

namespace superpipe::cli {
namespace {

// Files of the tree, with a zero at their ends.
constexpr unsigned char kPageHtml[] = {
#include "tools/superpipe/report/generated/page.html.inc"
};
constexpr unsigned char kPageCss[] = {
#include "tools/superpipe/report/generated/page.css.inc"
};
constexpr unsigned char kPartsJs[] = {
#include "tools/superpipe/report/generated/page_parts.js.inc"
};
constexpr unsigned char kPageJs[] = {
#include "tools/superpipe/report/generated/page.js.inc"
};
constexpr unsigned char kUplotCss[] = {
#include "tools/superpipe/report/generated/uPlot.min.css.inc"
};
constexpr unsigned char kUplotJs[] = {
#include "tools/superpipe/report/generated/uPlot.iife.min.js.inc"
};
constexpr unsigned char kUplotLicence[] = {
#include "tools/superpipe/report/generated/LICENSE.inc"
};

template <std::size_t kSize>
std::string_view text_of(const unsigned char (&bytes)[kSize]) {
  return {reinterpret_cast<const char*>(bytes), kSize - 1};
}

std::string as_html(std::string_view text) {
  std::string escaped;
  for (const char letter : text) {
    switch (letter) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += letter;
    }
  }
  return escaped;
}

}  // namespace

std::string as_script_content(std::string_view json) {
  // These stand in texts only, where JSON allows to write them by their numbers.
  std::string escaped;
  escaped.reserve(json.size());
  for (const char letter : json) {
    switch (letter) {
      case '<':
        escaped += "\\u003c";
        break;
      case '>':
        escaped += "\\u003e";
        break;
      case '&':
        escaped += "\\u0026";
        break;
      default:
        escaped += letter;
    }
  }
  return escaped;
}

void write_report_page(ExportSink& out, std::string_view title, const std::string& json) {
  const std::string data = as_script_content(json);
  const std::string heading = as_html(title);
  const std::string licence = as_html(text_of(kUplotLicence));
  const std::array<std::pair<std::string_view, std::string_view>, 8> parts = {{
      {"{{TITLE}}", heading},
      {"{{UPLOT_CSS}}", text_of(kUplotCss)},
      {"{{PAGE_CSS}}", text_of(kPageCss)},
      {"{{UPLOT_LICENCE}}", licence},
      {"{{DATA}}", data},
      {"{{UPLOT_JS}}", text_of(kUplotJs)},
      {"{{PARTS_JS}}", text_of(kPartsJs)},
      {"{{PAGE_JS}}", text_of(kPageJs)},
  }};
  std::string_view left = text_of(kPageHtml);
  for (const auto& [word, content] : parts) {
    // The words stand in the template in this order, each once.
    const std::size_t place = left.find(word);
    out.write(left.substr(0, place));
    out.write(content);
    left.remove_prefix(place + word.size());
  }
  out.write(left);
}

}  // namespace superpipe::cli

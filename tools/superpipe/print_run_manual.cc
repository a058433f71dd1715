// Prints what run_manual.h makes: README's table of settings, or the manual page. The build
// installs the page, and scripts/settings_table keeps README's table.

#include <iostream>
#include <string_view>

#include "tools/superpipe/exit_code.h"
#include "tools/superpipe/run_manual.h"

int main(int argc, char** argv) {
  using namespace superpipe::cli;
  const std::string_view what = argc == 2 ? argv[1] : "";
  if (what == "table") {
    std::cout << settings_table();
  } else if (what == "page") {
    std::cout << manual_page(SUPERPIPE_VERSION);
  } else {
    std::cerr << "print_run_manual: say what to print: table or page\n";
    return kBadUsage;
  }
  std::cout.flush();
  return std::cout ? kSuccess : kProblemFound;
}

#include "tools/superpipe/trace_files.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <system_error>
#include <vector>

#include "profiler/trace_file.h"

namespace superpipe::cli {
namespace {

// A run may have a file for each of hundreds of workers.
constexpr std::size_t kMostNamed = 8;

}  // namespace

bool is_same_file(const std::string& one, const std::string& other) {
  std::error_code none;
  return std::filesystem::is_regular_file(one, none) &&
         std::filesystem::equivalent(one, other, none);
}

std::string other_trace_files(const std::string& path, std::span<const std::string> named) {
  std::vector<std::string> others = find_trace_files(path);
  std::erase_if(others, [&](const std::string& file) {
    const auto is_it = [&](const std::string& one) { return is_same_file(one, file); };
    return file == path || is_it(path) || std::ranges::any_of(named, is_it);
  });
  std::string text;
  for (std::size_t i = 0; i < std::min(others.size(), kMostNamed); ++i) {
    text += (i == 0 ? "" : ", ") + others[i];
  }
  if (others.size() > kMostNamed) {
    text += " and " + std::to_string(others.size() - kMostNamed) + " more";
  }
  return text;
}

}  // namespace superpipe::cli

#include "profiler/process_identity.h"

#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

namespace superpipe {

// Field 22 of /proc/PID/stat; the name before it may hold anything, a parenthesis included. A
// process that has ended and that no process has waited for has none.
std::optional<std::uint64_t> start_time_of(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t end = text.rfind(')');
  if (end == std::string::npos) return std::nullopt;
  const char* at = text.c_str() + end + 1;
  if (at[0] != ' ' || at[1] == 'Z' || at[1] == 'X') return std::nullopt;
  for (int field = 3; field < 22; ++field) {
    at = std::strchr(at + 1, ' ');
    if (at == nullptr) return std::nullopt;
  }
  return std::strtoull(at, nullptr, 10);
}

std::uint64_t own_pid_namespace() {
  struct stat status {};
  return ::stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

std::string boot_in(const std::string& file) {
  constexpr std::size_t kDigits = 8;
  std::string id(kDigits, '\0');
  std::ifstream(file).read(id.data(), kDigits);
  const auto is_digit = [](unsigned char letter) { return std::isxdigit(letter) != 0; };
  return std::ranges::all_of(id, is_digit) ? id : "0";
}

std::string own_processes() {
  return boot_in("/proc/sys/kernel/random/boot_id") + "-" + std::to_string(own_pid_namespace());
}

}  // namespace superpipe

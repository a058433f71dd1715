#include "tools/superpipe/run_options.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <string_view>

#include "policy/budget.h"
#include "policy/policy_engine.h"

namespace superpipe::cli {
namespace {

using Problem = std::optional<std::string>;

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string bad(const std::string& flag, const std::string& value, const std::string& allowed) {
  return flag + " " + (value.empty() ? "\"\"" : value) + ": " + allowed;
}

std::optional<std::int64_t> integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Problem check_count(const char* flag, const std::string& value, const char* what) {
  if (value.empty()) return std::nullopt;
  const auto number = integer(value);
  if (!number || *number < 1 || *number > std::numeric_limits<int>::max()) {
    return bad(flag, value, std::string("it is ") + what + ", a whole number of at least 1");
  }
  return std::nullopt;
}

// `whole`: what a percentage is a share of; null if none is allowed.
Problem check_size(const char* flag, const std::string& value, const char* whole) {
  if (value.empty()) return std::nullopt;
  const auto size = parse_size(value);
  const bool positive = size && (size->is_percentage() || size->resolve(Bytes{}) > Bytes{});
  if (positive && (whole != nullptr || !size->is_percentage())) return std::nullopt;
  std::string allowed = "it is a size above 0: bytes, or K, M, G, T as powers of 1024 (16M, 1.5G)";
  if (whole != nullptr) allowed += std::string(", or a percentage of ") + whole + " (40%)";
  return bad(flag, value, allowed);
}

Problem check_choice(const char* flag, const std::string& value,
                     std::initializer_list<std::string_view> allowed,
                     std::initializer_list<std::string_view> later = {}) {
  if (value.empty()) return std::nullopt;
  std::string list;
  for (const std::string_view choice : allowed) {
    if (value == choice) return std::nullopt;
    list += (list.empty() ? "" : ", ") + std::string(choice);
  }
  for (const std::string_view choice : later) {
    if (value == choice) return bad(flag, value, "not available in this version; use " + list);
  }
  return bad(flag, value, "it is one of " + list);
}

// The file need not exist, but writing it must not fail after a run of an hour.
Problem check_writable(const char* flag, const std::string& value) {
  if (value.empty()) return std::nullopt;
  struct stat status {};
  if (stat(value.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) return bad(flag, value, "it is a folder; name a file");
    if (access(value.c_str(), W_OK) != 0) {
      return bad(flag, value, std::string("it cannot be written: ") + std::strerror(errno));
    }
    return std::nullopt;
  }
  auto folder = std::filesystem::path(value).parent_path();
  if (folder.empty()) folder = ".";
  if (access(folder.c_str(), W_OK | X_OK) != 0) {
    return bad(flag, value,
               "the folder " + folder.string() + " cannot be written: " + std::strerror(errno));
  }
  return std::nullopt;
}

Problem check_log(const std::string& value) {
  const std::size_t colon = value.find(':');
  if (colon != std::string::npos) {
    if (colon + 1 == value.size()) return bad("--log", value, "no file after the colon");
    if (auto problem = check_writable("--log", value.substr(colon + 1))) return problem;
  }
  if (!value.empty() && colon == 0) return bad("--log", value, "no level before the colon");
  return check_choice("--log", value.substr(0, colon),
                      {"debug", "info", "warning", "warn", "error", "off"});
}

// What the flags together ask of the policy; a variable counts where no flag replaces it.
Problem check_policy(const RunOptions& options) {
  if (!options.gpu_mem.empty() && !options.k.empty()) {
    return "--k and --gpu-mem both say how much stays on the device; give one of them";
  }
  if (!options.gpu_mem.empty() && !options.k_prime.empty()) {
    return "--k-prime goes with --k; with --gpu-mem it follows from the k that fits";
  }
  const std::string k = !options.k.empty()        ? options.k
                        : options.gpu_mem.empty() ? variable("SUPERPIPE_K")
                                                  : "";
  const std::string gpu_mem = !options.gpu_mem.empty() ? options.gpu_mem
                              : options.k.empty()      ? variable("SUPERPIPE_GPU_MEM")
                                                       : "";
  if (!options.k_prime.empty()) {
    const auto k_number = integer(k);
    const auto k_prime_number = integer(options.k_prime);  // checked before
    if (!k_number) return "--k-prime " + options.k_prime + ": it needs --k, and is less than k";
    if (*k_prime_number >= *k_number) {
      return "--k-prime " + options.k_prime + ": it is less than k, which is " + k +
             "; k' layers arrive while the other k - k' run";
    }
  }
  const bool sized = !k.empty() || !gpu_mem.empty();
  if (!options.policy.empty() && options.policy != "resident" && !sized) {
    return "--policy " + options.policy + ": it needs --k N or --gpu-mem SIZE";
  }
  if (options.policy == "resident" && (!options.k.empty() || !options.gpu_mem.empty())) {
    return "--policy resident keeps everything on the device: it goes with neither --k nor "
           "--gpu-mem";
  }
  return std::nullopt;
}

}  // namespace

const std::vector<MirroredFlag>& mirrored_flags() {
  static const std::vector<MirroredFlag> kFlags = {
      {"--k", "SUPERPIPE_K", &RunOptions::k},
      {"--k-prime", "SUPERPIPE_K_PRIME", &RunOptions::k_prime},
      {"--gpu-mem", "SUPERPIPE_GPU_MEM", &RunOptions::gpu_mem},
      {"--policy", "SUPERPIPE_POLICY", &RunOptions::policy},
      {"--host-mem", "SUPERPIPE_HOST_MEM", &RunOptions::host_mem},
      {"--min-buffer", "SUPERPIPE_MIN_BUFFER", &RunOptions::min_buffer},
      {"--allocator", "SUPERPIPE_ALLOCATOR", &RunOptions::allocator},
      {"--writeback", "SUPERPIPE_WRITEBACK", &RunOptions::writeback},
      {"--overflow", "SUPERPIPE_OVERFLOW", &RunOptions::overflow},
      {"--wait-ms", "SUPERPIPE_WAIT_MS", &RunOptions::wait_ms},
      {"--fill", "SUPERPIPE_FILL", &RunOptions::fill},
      {"--evicted", "SUPERPIPE_EVICTED", &RunOptions::evicted},
      {"--report-mem", "SUPERPIPE_REPORT_MEM", &RunOptions::report_mem},
      {"--log", "SUPERPIPE_LOG", &RunOptions::log},
      {"--stats", "SUPERPIPE_STATS", &RunOptions::stats},
      {"--timeline", "SUPERPIPE_TIMELINE", &RunOptions::timeline},
  };
  return kFlags;
}

std::optional<std::string> problem_with(const RunOptions& options) {
  if (!options.plan.empty()) return "--plan: not available in this version";
  if (!options.trace.empty()) return "--trace: not available in this version";
  if (auto problem = check_count("--k", options.k, "the number of layers on the device")) {
    return problem;
  }
  if (auto problem =
          check_count("--k-prime", options.k_prime, "the number of layers moved at a time")) {
    return problem;
  }
  if (auto problem = check_count("--wait-ms", options.wait_ms, "a time in milliseconds")) {
    return problem;
  }
  if (auto problem = check_size("--gpu-mem", options.gpu_mem, "the device")) return problem;
  if (auto problem = check_size("--host-mem", options.host_mem, "the host's memory"))
    return problem;
  if (auto problem = check_size("--min-buffer", options.min_buffer, nullptr)) return problem;
  if (auto problem = check_choice(
          "--policy", options.policy,
          {name_of(PolicyKind::kResident), name_of(PolicyKind::kNaive),
           name_of(PolicyKind::kSuperpipeline), name_of(PolicyKind::kSuperpipelinePaper)},
          {"lru", "auto"})) {
    return problem;
  }
  if (auto problem = check_choice("--allocator", options.allocator, {"async", "native"})) {
    return problem;
  }
  if (auto problem = check_choice("--writeback", options.writeback, {"always"}, {"digest"})) {
    return problem;
  }
  if (auto problem = check_choice("--overflow", options.overflow, {"fail", "allow"})) {
    return problem;
  }
  if (auto problem = check_choice("--fill", options.fill, {"zero", "none"})) return problem;
  if (auto problem =
          check_choice("--evicted", options.evicted, {"auto", "unmapped"}, {"host-mapped"})) {
    return problem;
  }
  if (auto problem = check_choice("--report-mem", options.report_mem, {"virtual", "real"})) {
    return problem;
  }
  if (auto problem = check_log(options.log)) return problem;
  if (auto problem = check_writable("--stats", options.stats)) return problem;
  if (auto problem = check_writable("--timeline", options.timeline)) return problem;
  return check_policy(options);
}

}  // namespace superpipe::cli

#include "profiler/plan_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

namespace superpipe {
namespace {

using PlanJson = nlohmann::ordered_json;

constexpr const char* kFormat = "superpipe-plan";
constexpr std::uint64_t kPlanVersion = 1;
constexpr std::size_t kMostPlanBytes = std::size_t{256} << 20;
constexpr std::size_t kMostPlannedWriteBacks = 65'536;
constexpr std::uint64_t kMostFootprint = std::uint64_t{1} << 48;
constexpr int kMostPlannedLayers = 1'000'000;

/// FNV-1a with 64 bits.
std::uint64_t checksum_of(std::string_view text) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char byte : text) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001B3ULL;
  }
  return hash;
}

std::string hexadecimal(std::uint64_t number) {
  std::array<char, 16> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number, 16).ptr;
  return {digits.data(), end};
}

std::optional<std::uint64_t> from_hexadecimal(const PlanJson& json) {
  if (!json.is_string()) return std::nullopt;
  const auto& text = json.get_ref<const std::string&>();
  std::uint64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  const bool whole = read.ec == std::errc() && read.ptr == text.data() + text.size();
  return whole ? std::optional(number) : std::nullopt;
}

/// The member of that name; a null where there is none, or where `json` is no object.
const PlanJson& member(const PlanJson& json, const char* name) {
  static const PlanJson kNone;
  const auto found = json.find(name);
  return found == json.end() ? kNone : *found;
}

/// A whole number of at most `most`.
std::optional<std::uint64_t> number_in(const PlanJson& json, std::uint64_t most) {
  if (!json.is_number_unsigned()) return std::nullopt;
  const auto number = json.get<std::uint64_t>();
  return number <= most ? std::optional(number) : std::nullopt;
}

bool read_sizes(const PlanJson& json, std::size_t most, std::vector<Bytes>& sizes) {
  if (!json.is_array() || json.size() > most) return false;
  sizes.reserve(json.size());
  for (const PlanJson& one : json) {
    const auto size = number_in(one, kMostFootprint);
    if (!size || *size == 0) return false;
    sizes.emplace_back(*size);
  }
  return true;
}

PlanJson sizes_json(const std::vector<Bytes>& sizes) {
  PlanJson json = PlanJson::array();
  for (const Bytes size : sizes) json.push_back(size.count());
  return json;
}

/// Reads pieces of buffers that there are. Plans of before 2026-11-28 have none.
bool read_write_backs(const PlanJson& json, RecordedRun& recorded) {
  if (json.is_null()) return true;
  if (!json.is_array() || json.size() > kMostPlannedWriteBacks) return false;
  recorded.write_backs.reserve(json.size());
  for (const PlanJson& one : json) {
    if (!one.is_array() || one.size() != 2 || recorded.footprints.empty()) return false;
    const auto buffer = number_in(one[0], recorded.footprints.size() - 1);
    const auto piece = number_in(one[1], std::numeric_limits<std::uint32_t>::max());
    if (!buffer || !piece) return false;
    recorded.write_backs.push_back(
        {static_cast<std::uint32_t>(*buffer), static_cast<std::uint32_t>(*piece)});
  }
  return true;
}

PlanJson write_backs_json(const std::vector<RecordedRun::PieceOf>& pieces) {
  PlanJson json = PlanJson::array();
  for (const RecordedRun::PieceOf& one : pieces) {
    json.push_back(PlanJson::array({one.buffer, one.piece}));
  }
  return json;
}

/// Reads one launch: the number of its kernel, and those of its buffers.
bool read_launch(const PlanJson& json, const std::vector<std::uint64_t>& kernels,
                 RecordedRun& recorded) {
  if (!json.is_array() || json.empty()) return false;
  const auto kernel = number_in(json.front(), kernels.size() - 1);
  if (!kernel) return false;
  if (recorded.names.size() + json.size() > kMostPlannedNames) return false;
  RecordedRun::Launch launch{KernelId{kernels[*kernel]},
                             static_cast<std::uint32_t>(recorded.names.size()),
                             static_cast<std::uint32_t>(json.size() - 1)};
  for (std::size_t i = 1; i < json.size(); ++i) {
    const auto buffer = number_in(json[i], recorded.footprints.size() - 1);
    if (!buffer || recorded.footprints.empty()) return false;
    recorded.names.push_back(static_cast<std::uint32_t>(*buffer));
  }
  std::vector<std::uint32_t> named(recorded.names.begin() + launch.first, recorded.names.end());
  std::ranges::sort(named);
  if (std::ranges::adjacent_find(named) != named.end()) return false;
  recorded.launches.push_back(launch);
  return true;
}

bool read_recorded(const PlanJson& json, RecordedRun& recorded) {
  const PlanJson& launches = member(json, "launches");
  const PlanJson& kernel_ids = member(json, "kernels");
  if (!launches.is_array() || launches.size() > kMostPlannedLaunches) return false;
  if (!kernel_ids.is_array() || kernel_ids.size() > launches.size()) return false;
  std::vector<std::uint64_t> kernels;
  for (const PlanJson& one : kernel_ids) {
    const auto id = from_hexadecimal(one);
    if (!id) return false;
    kernels.push_back(*id);
  }
  if (!read_sizes(member(json, "buffers"), kMostPlannedBuffers, recorded.footprints)) return false;
  if (!read_sizes(member(json, "slabs"), kMostPlannedBuffers, recorded.slabs)) return false;
  if (!read_write_backs(member(json, "write_backs"), recorded)) return false;
  if (!launches.empty() && kernels.empty()) return false;
  for (const PlanJson& launch : launches) {
    if (!read_launch(launch, kernels, recorded)) return false;
  }
  const auto begin = number_in(member(json, "pass_begin"), launches.size());
  recorded.pass_begin = begin.value_or(0);
  return begin && (launches.empty() || *begin < launches.size());
}

bool read_layers(const PlanJson& json, std::optional<int>& layers) {
  if (json.is_null()) return true;
  const auto number = number_in(json, kMostPlannedLayers);
  if (!number || *number == 0) return false;
  layers = static_cast<int>(*number);
  return true;
}

bool read_body(const PlanJson& json, Plan& plan) {
  if (!json.is_object()) return false;
  const PlanJson& command = member(json, "command");
  const PlanJson& policy = member(json, "policy");
  const PlanJson& pass_ms = member(json, "pass_ms");
  const PlanJson& first_pass_ms = member(json, "first_pass_ms");
  if (!command.is_string() || !policy.is_string()) return false;
  if (!pass_ms.is_number() || !first_pass_ms.is_number()) return false;
  const auto kind = policy_from_name(policy.get_ref<const std::string&>());
  const auto gpu_mem = number_in(member(json, "gpu_mem_bytes"), kMostFootprint);
  if (!kind || !gpu_mem) return false;
  plan.command = command.get<std::string>();
  plan.policy = *kind;
  plan.gpu_mem = Bytes{*gpu_mem};
  plan.pass_ms = pass_ms.get<double>();
  plan.first_pass_ms = first_pass_ms.get<double>();
  if (!read_layers(member(json, "k"), plan.k)) return false;
  if (!read_layers(member(json, "k_prime"), plan.k_prime)) return false;
  if (plan.k && (!counts_layers(*kind) || plan.gpu_mem > Bytes{})) return false;
  if (plan.k_prime && (!plan.k || *plan.k_prime >= *plan.k)) return false;
  if (!plan.k && plan.gpu_mem == Bytes{} && *kind != PolicyKind::kResident) return false;
  RecordedRun recorded;
  if (!read_recorded(json, recorded)) return false;
  if (!recorded.launches.empty() && *kind != PolicyKind::kAuto) return false;
  plan.recorded = std::make_shared<const RecordedRun>(std::move(recorded));
  return true;
}

// What is wrong with the first line of a plan with that rest; empty if nothing is.
std::string problem_with_header(const PlanJson& header, std::string_view body) {
  const PlanJson& format = member(header, "format");
  if (!format.is_string() || format.get_ref<const std::string&>() != kFormat) {
    return "it is no plan; superpipe plan TRACE -o FILE writes one";
  }
  const auto version = number_in(member(header, "version"), ~std::uint64_t{0});
  if (version && *version > kPlanVersion) {
    return "it is a plan of version " + std::to_string(*version) +
           ", made by a newer superpipe; this one reads version " + std::to_string(kPlanVersion);
  }
  const auto bytes = number_in(member(header, "bytes"), ~std::uint64_t{0});
  const PlanJson& checksum = member(header, "checksum");
  if (version != kPlanVersion || !bytes || !checksum.is_string())
    return "the plan is damaged: make it again";
  if (body.size() < *bytes) {
    return "the plan is cut short, " + std::to_string(*bytes - body.size()) +
           " bytes are missing: make it again";
  }
  if (body.size() != *bytes ||
      hexadecimal(checksum_of(body)) != checksum.get_ref<const std::string&>()) {
    return "the plan is damaged, its checksum is another: make it again";
  }
  return {};
}

/// Closes a file.
struct OpenFile {
  int descriptor;
  ~OpenFile() { ::close(descriptor); }
};

}  // namespace

std::string text_of(const Plan& plan) {
  const RecordedRun& recorded = *plan.recorded;
  PlanJson json;
  json["command"] = plan.command;
  json["policy"] = name_of(plan.policy);
  json["gpu_mem_bytes"] = plan.gpu_mem.count();
  if (plan.k) json["k"] = *plan.k;
  if (plan.k_prime) json["k_prime"] = *plan.k_prime;
  json["pass_ms"] = plan.pass_ms;
  json["first_pass_ms"] = plan.first_pass_ms;
  PlanJson kernels = PlanJson::array();
  PlanJson launches = PlanJson::array();
  std::unordered_map<std::uint64_t, std::size_t> numbers;
  for (const RecordedRun::Launch& launch : recorded.launches) {
    const auto id = static_cast<std::uint64_t>(launch.kernel);
    const auto [number, is_new] = numbers.try_emplace(id, numbers.size());
    if (is_new) kernels.push_back(hexadecimal(id));
    PlanJson words = PlanJson::array({number->second});
    for (const std::uint32_t buffer : recorded.names_of(launch)) words.push_back(buffer);
    launches.push_back(std::move(words));
  }
  json["kernels"] = std::move(kernels);
  json["buffers"] = sizes_json(recorded.footprints);
  json["slabs"] = sizes_json(recorded.slabs);
  json["write_backs"] = write_backs_json(recorded.write_backs);
  json["pass_begin"] = recorded.pass_begin;
  json["launches"] = std::move(launches);
  const std::string body = json.dump(-1, ' ', false, PlanJson::error_handler_t::replace) + '\n';
  PlanJson header;
  header["format"] = kFormat;
  header["version"] = kPlanVersion;
  header["bytes"] = body.size();
  header["checksum"] = hexadecimal(checksum_of(body));
  return header.dump() + '\n' + body;
}

std::variant<Plan, std::string> plan_from(const std::string& text) {
  if (text.empty()) return std::string("the file is empty: make the plan again");
  const std::string_view whole = text;
  const std::size_t end = whole.find('\n');
  const std::string_view line = whole.substr(0, end);
  const std::string_view body =
      end == std::string::npos ? std::string_view() : whole.substr(end + 1);
  // A first line is short: what is not, is no plan, and takes long to parse. No parse throws.
  constexpr std::size_t kLongestHeader = 4096;
  const PlanJson header =
      line.size() > kLongestHeader ? PlanJson() : PlanJson::parse(line, nullptr, false);
  if (auto problem = problem_with_header(header, body); !problem.empty()) return problem;
  const PlanJson json = PlanJson::parse(body, nullptr, false);
  Plan plan;
  if (!read_body(json, plan)) return std::string("the plan contradicts itself: make it again");
  return plan;
}

std::variant<Plan, std::string> read_plan(const std::string& path) {
  const auto failure = [](const char* what, int error) {
    return std::string("cannot ") + what + " it: " + std::strerror(error);
  };
  // Does not wait at a pipe that nothing writes to.
  const OpenFile file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.descriptor < 0) return failure("open", errno);
  struct stat status {};
  if (::fstat(file.descriptor, &status) != 0) return failure("read", errno);
  if (!S_ISREG(status.st_mode)) return std::string("it is no file that a plan can be in");
  if (static_cast<std::uint64_t>(status.st_size) > kMostPlanBytes) {
    return std::string("it is too large for a plan");
  }
  std::string text(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t got = 0;
  while (got < text.size()) {
    const ssize_t count = ::read(file.descriptor, text.data() + got, text.size() - got);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failure("read", errno);
    if (count == 0) break;
    got += static_cast<std::size_t>(count);
  }
  text.resize(got);
  return plan_from(text);
}

void give_values_of(const Plan& plan, SettingValues& values) {
  const auto is_given = [&](SettingId id) { return values.given(id) != nullptr; };
  const bool says_how_much = is_given(SettingId::kK) || is_given(SettingId::kGpuMem);
  if (says_how_much && !is_given(SettingId::kPolicy)) return;  // the policy follows from that
  if (!is_given(SettingId::kPolicy)) {
    values.give(SettingId::kPolicy, ValueSource::kVariable, std::string(name_of(plan.policy)));
  }
  const auto kind = policy_from_name(values.choice(SettingId::kPolicy));
  if (says_how_much || !kind || *kind == PolicyKind::kResident) return;
  if (plan.k && counts_layers(*kind)) {
    values.give(SettingId::kK, ValueSource::kVariable, std::to_string(*plan.k));
    if (plan.k_prime && !is_given(SettingId::kKPrime)) {
      values.give(SettingId::kKPrime, ValueSource::kVariable, std::to_string(*plan.k_prime));
    }
  } else if (plan.gpu_mem > Bytes{}) {
    values.give(SettingId::kGpuMem, ValueSource::kVariable, std::to_string(plan.gpu_mem.count()));
  }
}

}  // namespace superpipe

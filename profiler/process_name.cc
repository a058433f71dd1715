#include "profiler/process_name.h"

#include <array>
#include <charconv>
#include <string_view>

namespace superpipe {
namespace {

std::optional<std::uint64_t> number_in(const char* text) {
  if (text == nullptr) return std::nullopt;
  const std::string_view digits = text;
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return number;
}

/// The variables of one launcher: the rank, and how many processes there are.
struct RankVariables {
  const char* rank;
  const char* size;
};

constexpr std::array<RankVariables, 6> kRankVariables{
    {{"RANK", "WORLD_SIZE"},
     {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
     {"PMI_RANK", "PMI_SIZE"},
     {"SLURM_PROCID", "SLURM_NTASKS"},
     {"LOCAL_RANK", "LOCAL_WORLD_SIZE"},
     {"OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"}}};

}  // namespace

std::string ProcessName::text() const {
  return (rank ? "rank " + std::to_string(*rank) + ", " : "") + "process " + std::to_string(id);
}

ProcessName process_name(int id, const Environment& environment) {
  ProcessName name{id, std::nullopt, false};
  for (const RankVariables& variables : kRankVariables) {
    name.rank = number_in(environment(variables.rank));
    if (!name.rank) continue;
    name.is_one_of_several = number_in(environment(variables.size)) != std::uint64_t{1};
    break;
  }
  const auto root = number_in(environment(kRunRootVariable));
  if (root && *root != static_cast<std::uint64_t>(id)) name.is_one_of_several = true;
  return name;
}

std::string file_name_of(const std::string& pattern, const ProcessName& process) {
  std::string name;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char next = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (next == 'p') {
      name += std::to_string(process.id);
    } else if (next == 'r') {
      name += std::to_string(process.rank.value_or(0));
    } else {
      name += pattern[i];
      if (next != '%') continue;
    }
    ++i;
  }
  return name;
}

bool names_each_process(const std::string& pattern) {
  // Two that differ in both make different names where there is a placeholder.
  return file_name_of(pattern, {1, 1, true}) != file_name_of(pattern, {2, 2, true});
}

}  // namespace superpipe

// One question that only a device can answer, and how its answer is told.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tools/superpipe/installation.h"

namespace superpipe::cli {

/// What a probe is told.
struct ProbeSetting {
  std::string driver_path;   ///< absolute
  bool simulated = false;    ///< simgpu: sizes that a CPU copes with
  bool quick = false;        ///< fewer sizes, fewer repetitions
  int driver_version = 0;    ///< 13000 for CUDA 13.0
  std::string cuda_runtime;  ///< a libcudart that the user named; empty: look for one
  std::optional<std::uint64_t> host_bytes;  ///< host memory that a probe may use; unknown if empty
  Installation parts;
  bool without_host_numa = false;  ///< leave out pages of a NUMA node, which ended a process

  /// One of three, by how much time there is.
  template <typename Value>
  [[nodiscard]] Value pick(Value full, Value when_quick, Value when_simulated) const {
    return simulated ? when_simulated : quick ? when_quick : full;
  }
};

/// Something that the probe needs is not there: the question stays open on this machine.
class Skipped : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Where a probe tells what it finds, line by line, so that what it told before a crash is kept.
class ProbeReport {
 public:
  using Json = nlohmann::ordered_json;

  /// Writes to `fd`, which stays the caller's.
  explicit ProbeReport(int fd) : fd_(fd) {}

  /// One figure. Its name carries its unit.
  void figure(const std::string& name, const Json& value) const;
  /// The answer in one line, and for a question of yes or no whether it is yes.
  void answer(const std::string& text, std::optional<bool> holds = std::nullopt) const;
  /// What happens now, in a few words: where a crash or a hang was.
  void step(const std::string& text) const;
  /// Any other line of the protocol, for the runner. `line`: an object.
  void line(const Json& line) const;

 private:
  int fd_;
};

/// Answers the question, or throws NotSupported, CallFailed, Skipped or another std::exception.
/// Runs in a process of its own, which may end in any way.
using ProbeFunction = void (*)(const ProbeSetting&, const ProbeReport&);

/// One question.
struct Probe {
  const char* id;        ///< "H1"
  const char* name;      ///< "link": a word for the eye
  const char* question;  ///< in one line
  ProbeFunction run;
};

/// All of them, in the order in which they are asked.
[[nodiscard]] const std::vector<Probe>& all_probes();

/// The probe of that id, whatever its case ("h1"); null if there is none.
[[nodiscard]] const Probe* find_probe(std::string_view id);

/// REQUIRES host memory: throws Skipped if less than `bytes` may be used.
void need_host_memory(const ProbeSetting& setting, std::uint64_t bytes);

void probe_runtime_behind_shim(const ProbeSetting& setting, const ProbeReport& report);  // H0
void probe_link_bandwidth(const ProbeSetting& setting, const ProbeReport& report);       // H1
void probe_mapping_cost(const ProbeSetting& setting, const ProbeReport& report);         // H2
void probe_unmap_under_load(const ProbeSetting& setting, const ProbeReport& report);     // H3
void probe_host_located_pages(const ProbeSetting& setting, const ProbeReport& report);   // H4
void probe_pointer_identity(const ProbeSetting& setting, const ProbeReport& report);     // H5
void probe_read_only_mappings(const ProbeSetting& setting, const ProbeReport& report);   // H6
void probe_tensor_map(const ProbeSetting& setting, const ProbeReport& report);           // H7
void probe_alias_coherence(const ProbeSetting& setting, const ProbeReport& report);      // H8
void probe_digest_bandwidth(const ProbeSetting& setting, const ProbeReport& report);     // H9
void probe_launch_overhead(const ProbeSetting& setting, const ProbeReport& report);      // H10
void probe_launches_beside(const ProbeSetting& setting, const ProbeReport& report);      // H14
void probe_arena_addresses(const ProbeSetting& setting, const ProbeReport& report);      // H15
void probe_demand_latency(const ProbeSetting& setting, const ProbeReport& report);       // H16
void probe_launch_queue(const ProbeSetting& setting, const ProbeReport& report);         // H17
void probe_registration(const ProbeSetting& setting, const ProbeReport& report);         // H18
void probe_peer_access(const ProbeSetting& setting, const ProbeReport& report);          // H19
void probe_stream_ordered_allocation(const ProbeSetting& setting,
                                     const ProbeReport& report);                           // H20
void probe_lazy_loading(const ProbeSetting& setting, const ProbeReport& report);           // H21
void probe_legacy_events(const ProbeSetting& setting, const ProbeReport& report);          // H22
void probe_host_page_costs(const ProbeSetting& setting, const ProbeReport& report);        // H24
void probe_host_page_access(const ProbeSetting& setting, const ProbeReport& report);       // H25
void probe_host_page_graphs(const ProbeSetting& setting, const ProbeReport& report);       // H26
void probe_host_page_copies(const ProbeSetting& setting, const ProbeReport& report);       // H27
void probe_host_page_products(const ProbeSetting& setting, const ProbeReport& report);     // H28
void probe_host_functions(const ProbeSetting& setting, const ProbeReport& report);         // H29
void probe_digests_beside_copies(const ProbeSetting& setting, const ProbeReport& report);  // H30
void probe_host_page_tensor_maps(const ProbeSetting& setting, const ProbeReport& report);  // H31
void probe_host_page_atomics(const ProbeSetting& setting, const ProbeReport& report);      // H32
void probe_host_page_peers(const ProbeSetting& setting, const ProbeReport& report);        // H33

}  // namespace superpipe::cli

// Random programs against a plain reference: what a program reads back must be what it would have
// read without a manager.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "residency/residency_manager.h"
#include "tests/residency/fake_device.h"

namespace superpipe::testing {

/// What a random program is, and on what it runs.
struct ProgramOptions {
  std::uint64_t seed = 1;
  int steps = 150;
  int streams = 3;
  PolicyConfig policy;
  bool policy_waits = false;
  Bytes piece_size;  ///< 0: buffers move whole
  bool zero_fill = false;
  /// ResidencyOptions::compares_digests. Launches then also leave some of their buffers as they
  /// are, and give others the content back that they had before.
  bool compares_digests = false;
  bool maps_early = false;  ///< ResidencyOptions::maps_early
  Bytes host_limit{std::uint64_t{1} << 40};
  Bytes device_capacity{std::uint64_t{1} << 40};
  Sabotage sabotage;
  Call fault = Call::kCount;  ///< the kind of call to fail, if any
  int fault_at = 0;           ///< its ordinal, from the end of the manager's creation
  bool fault_repeats = false;
  Status fault_status = Status::kDeviceError;
  std::uint64_t allocation_fault_at = 0;  ///< the host allocation of the manager to fail; 0: none
  std::uint64_t allocation_faults = 1;    ///< how many fail, from that on
  bool record_timeline = false;
  bool moving_budget = false;  ///< the budget is another one again and again
  Bytes most_others;           ///< what other processes take comes and goes, up to this
  bool layered = false;        ///< passes over layers, as models do, instead of random uses
};

/// What came of it.
struct ProgramOutcome {
  std::vector<std::string> mistakes;  ///< wrong bytes and violations of the device's rules
  std::uint64_t operations = 0;       ///< allocations, frees, copies, fills, launches, ...
  int refused = 0;                    ///< those that failed, cleanly
  int fault_hits = 0;                 ///< calls of the faulted kind that were made
  std::uint64_t allocations = 0;      ///< of the manager, where a program counts them
  int budget_changes = 0;             ///< that were carried out
  int shrunk_pages = 0;               ///< budgets that pages exceeded when they were set
  ResidencyStats stats;
};

/// Runs the program that `options` describe, deterministically: the same options, the same run.
ProgramOutcome run_random_program(const ProgramOptions& options);

}  // namespace superpipe::testing

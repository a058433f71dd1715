// H0: does NVIDIA's runtime library accept its driver behind superpipe's library?

#include <string>
#include <vector>

#include "tools/superpipe/installation.h"
#include "tools/superpipe/probes/child_program.h"
#include "tools/superpipe/probes/cuda_runtime_search.h"
#include "tools/superpipe/probes/probe.h"

namespace superpipe::cli {
namespace {

std::string runtime_for(const ProbeSetting& setting) {
  // NVIDIA's runtime refuses every driver but NVIDIA's, and nobody gets round that here.
  if (setting.simulated) return setting.parts.simgpu_runtime;
  if (!setting.cuda_runtime.empty()) return setting.cuda_runtime;
  // A runtime needs a driver of its own major version, or a newer one.
  for (const int major : {13, 12}) {
    if (setting.driver_version != 0 && setting.driver_version / 1000 < major) continue;
    if (std::string found = first_loadable(cuda_runtime_candidates(major)); !found.empty()) {
      return found;
    }
  }
  return {};
}

}  // namespace

void probe_runtime_behind_shim(const ProbeSetting& setting, const ProbeReport& report) {
  report.step("looking for a runtime library");
  const std::string runtime = runtime_for(setting);
  if (runtime.empty()) {
    throw Skipped(
        "no libcudart.so.13 or .12 that this driver serves was found; name one with "
        "--cudart FILE (pip install nvidia-cuda-runtime brings one)");
  }
  if (runtime.find('/') != std::string::npos && !is_readable_file(runtime)) {
    throw Skipped("there is no runtime library " + runtime);
  }
  const std::string whose = setting.simulated ? "simgpu's" : "NVIDIA's";
  report.figure("runtime", runtime);
  report.figure("runtime_is", whose);

  // simgpu's runtime finds its driver by name only under the library, so there it has no other
  // side.
  std::string failed_without;
  if (!setting.simulated) {
    report.step("without superpipe");
    const ChildEnd without = run_child_program(setting, {"runtime", runtime}, ChildLibrary::kNone);
    report.figure("without_superpipe", without.figures);
    failed_without = without.failure;
    if (!failed_without.empty()) report.figure("without_superpipe_failure", failed_without);
  }
  report.step("behind superpipe's library");
  const ChildEnd with = run_child_program(setting, {"runtime", runtime}, ChildLibrary::kResident);
  report.figure("behind_superpipe", with.figures);
  if (!with.failure.empty()) report.figure("behind_superpipe_failure", with.failure);

  if (!failed_without.empty()) {
    throw Skipped("the runtime does not work without superpipe either: " + failed_without);
  }
  if (!with.failure.empty()) {
    report.answer("no: " + with.failure, false);
    return;
  }
  if (!with.figures.value("library_present", false)) {
    throw Skipped("superpipe's library was not loaded into the program");
  }
  report.answer(
      "yes: " + whose + " runtime starts and moves bytes behind it" +
          (setting.simulated ? "; NVIDIA's was not asked, it refuses every driver but NVIDIA's"
                             : ""),
      true);
}

}  // namespace superpipe::cli

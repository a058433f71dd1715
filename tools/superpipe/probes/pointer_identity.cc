// H5: does cuGetProcAddress give the very functions that the driver exports?

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tools/superpipe/probes/exported_symbols.h"
#include "tools/superpipe/probes/session.h"

namespace superpipe::cli {
namespace {

// "cuMemAlloc" of "cuMemAlloc_v2", "cuMemcpyAsync" of "cuMemcpyAsync_ptsz": what programs ask for.
std::string base_name(std::string name) {
  for (const std::string_view suffix : {"_ptsz", "_ptds"}) {
    if (name.size() > suffix.size() &&
        name.compare(name.size() - suffix.size(), suffix.size(), suffix) == 0) {
      name.erase(name.size() - suffix.size());
    }
  }
  const std::size_t version = name.rfind("_v");
  if (version != std::string::npos && version + 2 < name.size() &&
      std::all_of(name.begin() + static_cast<std::ptrdiff_t>(version) + 2, name.end(),
                  [](unsigned char c) { return std::isdigit(c) != 0; })) {
    name.erase(version);
  }
  return name;
}

// Every release that could have brought a version of a function, up to the driver's own.
std::vector<int> releases(int driver_version) {
  std::vector<int> all;
  for (int major = 2; major * 1000 <= driver_version; ++major) {
    for (int minor = 0; minor <= 9; ++minor) {
      const int release = major * 1000 + minor * 10;
      if (release <= driver_version) all.push_back(release);
    }
  }
  return all;
}

}  // namespace

void probe_pointer_identity(const ProbeSetting& setting, const ProbeReport& report) {
  report.step("opening the driver");
  const Driver driver(setting.driver_path);
  driver.cuInit.must(0);
  int version = 0;
  driver.cuDriverGetVersion.must(&version);

  report.step("reading the names that it exports");
  std::vector<std::string> exported;
  for (const std::string& name : exported_symbols(setting.driver_path, "cu")) {
    // cuda... and cupti... are other libraries' names, should a file hold them too.
    if (name.size() > 2 && std::isupper(static_cast<unsigned char>(name[2])) != 0) {
      exported.push_back(name);
    }
  }
  if (exported.empty()) throw std::runtime_error("the driver's file has no list of exported names");
  std::map<void*, std::string> by_address;
  std::map<std::string, std::set<void*>> addresses_of;
  for (const std::string& name : exported) {
    if (void* const address = driver.symbol(name.c_str()); address != nullptr) {
      by_address.emplace(address, name);
      addresses_of[base_name(name)].insert(address);
    }
  }

  report.step("asking for each of them");
  std::size_t same = 0;
  std::set<void*> seen;
  std::vector<std::string> different, elsewhere, missing;
  for (const auto& [base, addresses] : addresses_of) {
    std::set<void*> answered;
    for (const int release : releases(version)) {
      for (const cuuint64_t flags :
           {CU_GET_PROC_ADDRESS_LEGACY_STREAM, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM}) {
        void* function = nullptr;
        CUdriverProcAddressQueryResult status{};
        if (driver.cuGetProcAddress(base.c_str(), &function, release, flags, &status) ==
                CUDA_SUCCESS &&
            function != nullptr) {
          answered.insert(function);
        }
      }
    }
    if (answered.empty()) missing.push_back(base);
    for (void* const function : answered) {
      seen.insert(function);
      if (addresses.count(function) != 0) {
        ++same;
      } else if (const auto other = by_address.find(function); other != by_address.end()) {
        elsewhere.push_back(base + " -> " + other->second);
      } else {
        different.push_back(base);
      }
    }
  }
  std::vector<std::string> never;
  for (const auto& [address, name] : by_address) {
    if (seen.count(address) == 0) never.push_back(name);
  }
  std::sort(never.begin(), never.end());

  report.figure("exported_names", exported.size());
  report.figure("names_asked_for", addresses_of.size());
  report.figure("same", same);
  report.figure("different", different.size());
  report.figure("missing", missing.size());
  report.figure("different_names", different);
  report.figure("another_functions_names", elsewhere);
  report.figure("missing_names", missing);
  report.figure("exported_but_never_given_names", never);
  const bool holds = different.empty() && elsewhere.empty();
  std::string text = (holds ? "yes: " : "no: ") + std::to_string(same) + " same, " +
                     std::to_string(different.size() + elsewhere.size()) + " different, " +
                     std::to_string(missing.size()) + " never given";
  if (!different.empty()) text += " (first different: " + different.front() + ")";
  if (different.empty() && !elsewhere.empty()) text += " (" + elsewhere.front() + ")";
  report.answer(text, holds);
}

}  // namespace superpipe::cli

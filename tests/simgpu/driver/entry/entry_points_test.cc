// The generated table of cuGetProcAddress against NVIDIA's own types: had a name and version been
// given the wrong symbol, almost always its type would differ, and this would not compile.
#define __CUDA_API_VERSION_INTERNAL
#include <cudaProfiler.h>
#include <cudaProfilerTypedefs.h>
#include <cudaTypedefs.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

namespace simgpu {
namespace {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#define SIMGPU_ENTRY(name, version, suffix, symbol)                                   \
  static_assert(std::is_same_v<decltype(&::symbol), PFN_##name##_v##version##suffix>, \
                #symbol " has another type than PFN_" #name "_v" #version #suffix);
#include "tools/simgpu/driver/generated/proc_addresses.inc"
#undef SIMGPU_ENTRY
#pragma GCC diagnostic pop

struct Entry {
  std::string name;
  int version;
  std::string suffix;
  std::string symbol;
};

const std::vector<Entry>& entries() {
  static const std::vector<Entry>& all = *new std::vector<Entry>{
#define SIMGPU_ENTRY(name, version, suffix, symbol) {#name, version, #suffix, #symbol},
#include "tools/simgpu/driver/generated/proc_addresses.inc"
#undef SIMGPU_ENTRY
  };
  return all;
}

std::string symbol_of(const std::string& name, int version, const std::string& suffix) {
  for (const Entry& entry : entries()) {
    if (entry.name == name && entry.version == version && entry.suffix == suffix) {
      return entry.symbol;
    }
  }
  return "";
}

TEST(ProcAddresses, HasEveryFunctionOfTheDriverOnce) {
  std::set<std::string> symbols;
  for (const Entry& entry : entries()) {
    EXPECT_TRUE(symbols.insert(entry.symbol).second) << entry.symbol << " twice";
  }
  EXPECT_EQ(symbols.size(), 637U);
}

TEST(ProcAddresses, IsSortedByNameAndVersion) {
  const auto key = [](const Entry& entry) {
    return std::tuple(entry.name, entry.version, entry.suffix);
  };
  for (std::size_t i = 1; i < entries().size(); ++i) {
    EXPECT_LT(key(entries()[i - 1]), key(entries()[i]));
  }
}

TEST(ProcAddresses, TellsAbisOfOneNameApart) {
  EXPECT_EQ(symbol_of("cuMemcpyHtoD", 2000, ""), "cuMemcpyHtoD");
  EXPECT_EQ(symbol_of("cuMemcpyHtoD", 3020, ""), "cuMemcpyHtoD_v2");
  EXPECT_EQ(symbol_of("cuMemcpyHtoD", 7000, "_ptds"), "cuMemcpyHtoD_v2_ptds");
  EXPECT_EQ(symbol_of("cuCtxCreate", 12050, ""), "cuCtxCreate_v4");
  EXPECT_EQ(symbol_of("cuGetProcAddress", 12000, ""), "cuGetProcAddress_v2");
  EXPECT_EQ(symbol_of("cuLaunchKernel", 7000, "_ptsz"), "cuLaunchKernel_ptsz");
  EXPECT_EQ(symbol_of("cuProfilerStart", 4000, ""), "cuProfilerStart");
}

}  // namespace
}  // namespace simgpu

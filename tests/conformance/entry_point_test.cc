// How a program finds the driver's functions, and whether a pointer tells which function it is.

#include <algorithm>
#include <set>

#include "tests/conformance/fixture.h"

namespace conformance {
namespace {

using EntryPoint = ConformanceTest;

// Every function that cuda.h declares, by its exported name.
constexpr const char* kSymbols[] = {
#include "conformance_symbols.inc"
};

// The versions at which functions got a new form, and the newest that the header knows.
constexpr int kVersions[] = {2000,  3000,  3010,  3020,  4000,  4010,  5000,  5050,  6000,
                             6050,  7000,  7050,  8000,  9000,  9020,  10000, 10010, 10020,
                             11000, 11010, 11020, 11030, 11040, 11060, 11070, 11080, 12000,
                             12010, 12020, 12030, 12040, 12050, 12060, 12080, 12090, CUDA_VERSION};

void remove_suffix(std::string& name, const std::string& suffix) {
  if (name.size() > suffix.size() &&
      name.compare(name.size() - suffix.size(), suffix.size(), suffix) == 0) {
    name.resize(name.size() - suffix.size());
  }
}

// "cuMemcpyHtoDAsync" of "cuMemcpyHtoDAsync_v2_ptsz".
std::string base_name(std::string symbol) {
  remove_suffix(symbol, "_ptsz");
  remove_suffix(symbol, "_ptds");
  for (const char* version : {"_v2", "_v3", "_v4"}) remove_suffix(symbol, version);
  return symbol;
}

void* lookup(const std::string& name, int version, cuuint64_t flags) {
  void* address = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  const CUresult result = cu().cuGetProcAddress(name.c_str(), &address, version, flags, &status);
  return result == CUDA_SUCCESS ? address : nullptr;
}

TEST_F(EntryPoint, FromCuGetProcAddressIsTheExportedSymbolForEveryFunction) {
  std::set<std::string> names;
  std::map<void*, std::string> symbols;
  for (const char* symbol : kSymbols) {
    names.insert(base_name(symbol));
    if (void* const address = exported(symbol); address != nullptr) symbols[address] = symbol;
  }
  ASSERT_GT(names.size(), 400U);
  int found = 0;
  std::vector<std::string> strangers;
  for (const std::string& name : names) {
    for (const cuuint64_t flags : {cuuint64_t{CU_GET_PROC_ADDRESS_LEGACY_STREAM},
                                   cuuint64_t{CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM}}) {
      for (const int version : kVersions) {
        void* const address = lookup(name, version, flags);
        if (address == nullptr) continue;
        ++found;
        const auto symbol = symbols.find(address);
        if (symbol == symbols.end() || base_name(symbol->second) != name) {
          strangers.push_back(name + "/" + std::to_string(version) + "/" + std::to_string(flags));
        }
      }
    }
  }
  EXPECT_GT(found, 4000);
  EXPECT_TRUE(strangers.empty()) << strangers.size() << " pointers are no exported symbol, e.g. "
                                 << strangers.front();
}

TEST_F(EntryPoint, OfCuGetProcAddressItselfIsTheExportedSymbol) {
  EXPECT_EQ(lookup("cuGetProcAddress", 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM),
            exported("cuGetProcAddress_v2"));
  EXPECT_EQ(lookup("cuGetProcAddress", 11030, CU_GET_PROC_ADDRESS_LEGACY_STREAM),
            exported("cuGetProcAddress"));
}

TEST_F(EntryPoint, DependsOnTheVersionAskedFor) {
  EXPECT_EQ(lookup("cuMemAlloc", 2000, 0), exported("cuMemAlloc"));
  EXPECT_EQ(lookup("cuMemAlloc", 3020, 0), exported("cuMemAlloc_v2"));
  EXPECT_EQ(lookup("cuMemAlloc", 12000, 0), exported("cuMemAlloc_v2"));
  EXPECT_EQ(lookup("cuStreamGetCaptureInfo", 10010, 0), exported("cuStreamGetCaptureInfo"));
  EXPECT_NE(exported("cuMemAlloc"), exported("cuMemAlloc_v2"));
}

TEST_F(EntryPoint, DependsOnThePerThreadStreamFlag) {
  EXPECT_EQ(lookup("cuLaunchKernel", 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM),
            exported("cuLaunchKernel"));
  EXPECT_EQ(lookup("cuLaunchKernel", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM),
            exported("cuLaunchKernel_ptsz"));
  EXPECT_EQ(lookup("cuMemcpyHtoD", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM),
            exported("cuMemcpyHtoD_v2_ptds"));
  EXPECT_EQ(lookup("cuMemAlloc", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM),
            exported("cuMemAlloc_v2"));
}

// The manual has it succeed with a null pointer; drivers have also been seen to answer
// CUDA_ERROR_NOT_FOUND.
void expect_no_address(CUresult result, const void* address) {
  EXPECT_TRUE(result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_FOUND) << describe(result);
  EXPECT_EQ(address, nullptr);
}

TEST_F(EntryPoint, IsNullForAnUnknownName) {
  void* address = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  expect_no_address(cu().cuGetProcAddress("cuNoSuchFunction", &address, 12000, 0, &status),
                    address);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
}

TEST_F(EntryPoint, IsNullForAVersionBeforeTheFunction) {
  void* address = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  expect_no_address(cu().cuGetProcAddress("cuMemAllocAsync", &address, 10000, 0, &status), address);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
}

}  // namespace
}  // namespace conformance

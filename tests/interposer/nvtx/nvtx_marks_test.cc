// What a program marks through NVTX is in the trace.
#include "interposer/nvtx/nvtx_marks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "interposer/driver/hook_scope.h"
#include "profiler/trace_reader.h"
#include "tests/interposer/managed_fixture.h"
#include "tests/temporary_folder.h"

namespace superpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// A module of the program with NVTX in it, as far as tools see one.
class Module {
 public:
  Module() {
    for (std::size_t i = 0; i < core_.size(); ++i) core_places_[i] = &core_[i];
    for (std::size_t i = 0; i < domains_.size(); ++i) domain_places_[i] = &domains_[i];
    core_places_[0] = domain_places_[0] = nullptr;
    module = this;
  }
  static const void* table(std::uint32_t id) {
    return id == NVTX_ETID_CALLBACKS ? &callbacks : nullptr;
  }

  template <typename Function, typename... Arguments>
  auto call(NvtxCallbackIdCore id, Arguments... arguments) const {
    return reinterpret_cast<Function>(core_.at(id))(arguments...);
  }
  template <typename Function, typename... Arguments>
  auto call(NvtxCallbackIdCore2 id, Arguments... arguments) const {
    return reinterpret_cast<Function>(domains_.at(id))(arguments...);
  }
  /// How many functions the tool has replaced.
  [[nodiscard]] auto replaced() const {
    return std::ranges::count_if(core_, [](auto* function) { return function != nullptr; }) +
           std::ranges::count_if(domains_, [](auto* function) { return function != nullptr; });
  }

  static inline Module* module = nullptr;  // the latest, which asks for a tool
  static int give_table(NvtxCallbackModule which, NvtxFunctionTable* table, unsigned* size) {
    if (which != NVTX_CB_MODULE_CORE && which != NVTX_CB_MODULE_CORE2) return 0;
    const bool is_core = which == NVTX_CB_MODULE_CORE;
    *table = is_core ? module->core_places_.data() : module->domain_places_.data();
    *size = static_cast<unsigned>(is_core ? module->core_size : module->domain_places_.size());
    return 1;
  }
  static inline NvtxExportTableCallbacks callbacks{sizeof(NvtxExportTableCallbacks), &give_table};
  std::size_t core_size = NVTX_CBID_CORE_SIZE;

 private:
  std::array<NvtxFunctionPointer, NVTX_CBID_CORE_SIZE> core_{};
  std::array<NvtxFunctionPointer, NVTX_CBID_CORE2_SIZE> domains_{};
  std::array<NvtxFunctionPointer*, NVTX_CBID_CORE_SIZE> core_places_{};
  std::array<NvtxFunctionPointer*, NVTX_CBID_CORE2_SIZE> domain_places_{};
};

nvtxEventAttributes_t attributes() {
  nvtxEventAttributes_t made{};
  made.version = NVTX_VERSION;
  made.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  return made;
}
nvtxEventAttributes_t attributes(const char* message) {
  nvtxEventAttributes_t made = attributes();
  made.messageType = NVTX_MESSAGE_TYPE_ASCII;
  made.message.ascii = message;
  return made;
}

/// The marks of a trace as words.
class Marks : public TraceVisitor {
 public:
  void on_text(const TraceText& event) override { texts.emplace_back(event.text); }
  void on_mark(const TraceMoment&, const TraceMark& event) override {
    static constexpr std::array kWays = {"begin", "end", "point"};
    std::string words = kWays.at(event.way);
    if (event.way != TraceMark::kEnd) words += " " + texts.at(event.text - 1);
    if (event.range != 0) words += " (" + std::to_string(event.range - first_range + 1) + ")";
    marks.push_back(words);
  }
  std::uint64_t first_range = 1;
  std::vector<std::string> texts;
  std::vector<std::string> marks;
};

class NvtxMarksTest : public testing::ManagedFixture {
 protected:
  void configure(Configuration& configuration) override {
    folder_ = make_temporary_folder("nvtx_marks_test");
    configuration.trace_file = folder_ / "run.sptrace";
  }
  void SetUp() override {
    ManagedFixture::SetUp();
    hooks_disabled = false;  // as in a program
    ASSERT_TRUE(attach_to_nvtx(&Module::table));
  }
  void TearDown() override {
    hooks_disabled = true;
    ManagedFixture::TearDown();
  }
  ~NvtxMarksTest() override { std::filesystem::remove_all(folder_); }

  int push(const char* message) const {
    return module_.call<nvtxRangePushA_impl_fntype>(NVTX_CBID_CORE_RangePushA, message);
  }
  int pop() const { return module_.call<nvtxRangePop_impl_fntype>(NVTX_CBID_CORE_RangePop); }
  int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t& what) const {
    return module_.call<nvtxDomainRangePushEx_impl_fntype>(NVTX_CBID_CORE2_DomainRangePushEx,
                                                           domain, &what);
  }
  int pop(nvtxDomainHandle_t domain) const {
    return module_.call<nvtxDomainRangePop_impl_fntype>(NVTX_CBID_CORE2_DomainRangePop, domain);
  }
  nvtxDomainHandle_t domain(const char* name) const {
    return module_.call<nvtxDomainCreateA_impl_fntype>(NVTX_CBID_CORE2_DomainCreateA, name);
  }
  /// What was recorded until now; nothing is from here on. `first_range`: the id that counts as 1.
  [[nodiscard]] std::vector<std::string> recorded(std::uint64_t first_range = 1) const {
    ContextRegistry::managed()->finish_trace();
    auto reader = TraceReader::open(folder_ / "run.sptrace");
    EXPECT_TRUE(reader.ok());
    Marks marks;
    marks.first_range = first_range;
    EXPECT_EQ(reader->read_all(marks), std::nullopt);
    return marks.marks;
  }

  Module module_;
  std::filesystem::path folder_;
};

TEST_F(NvtxMarksTest, RangesThatArePushedNest) {
  EXPECT_EQ(push("pass"), 0);
  EXPECT_EQ(push("layer"), 1);
  EXPECT_EQ(pop(), 1);
  EXPECT_EQ(pop(), 0);
  EXPECT_THAT(recorded(), ElementsAre("begin pass", "begin layer", "end", "end"));
}

TEST_F(NvtxMarksTest, AThreadThatPushedNothingHasNothingToPop) {
  push("of another thread");
  std::thread([this] { EXPECT_EQ(pop(), -1); }).join();
  EXPECT_EQ(pop(), 0);
  EXPECT_THAT(recorded(), ElementsAre("begin of another thread", "end"));
}

TEST_F(NvtxMarksTest, MarksArePoints) {
  module_.call<nvtxMarkA_impl_fntype>(NVTX_CBID_CORE_MarkA, "epoch");
  module_.call<nvtxMarkW_impl_fntype>(NVTX_CBID_CORE_MarkW, L"\u00e9poque");
  const auto what = attributes("with attributes");
  module_.call<nvtxMarkEx_impl_fntype>(NVTX_CBID_CORE_MarkEx, &what);
  EXPECT_THAT(recorded(), ElementsAre("point epoch", "point \u00e9poque", "point with attributes"));
}

TEST_F(NvtxMarksTest, RangesThatAreStartedMayEndOnOtherThreads) {
  const auto start = [this](const char* message) {
    return module_.call<nvtxRangeStartA_impl_fntype>(NVTX_CBID_CORE_RangeStartA, message);
  };
  const auto end = [this](nvtxRangeId_t range) {
    module_.call<nvtxRangeEnd_impl_fntype>(NVTX_CBID_CORE_RangeEnd, range);
  };
  const nvtxRangeId_t load = start("load");
  const nvtxRangeId_t warm = start("warm up");
  EXPECT_NE(load, 0U);
  EXPECT_EQ(warm, load + 1);
  std::thread([&] { end(load); }).join();
  end(warm);
  EXPECT_THAT(recorded(load),
              ElementsAre("begin load (1)", "begin warm up (2)", "end (1)", "end (2)"));
}

TEST_F(NvtxMarksTest, DomainsHaveNamesAndRegisteredStrings) {
  const auto library = domain("library");
  EXPECT_EQ(domain("library"), library);
  EXPECT_NE(domain("other"), library);
  auto what = attributes();
  what.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  what.message.registered = module_.call<nvtxDomainRegisterStringA_impl_fntype>(
      NVTX_CBID_CORE2_DomainRegisterStringA, library, "step");
  EXPECT_EQ(push(library, what), 0);
  EXPECT_EQ(push(library, attributes()), 1);
  EXPECT_EQ(pop(library), 1);
  EXPECT_EQ(pop(library), 0);
  EXPECT_THAT(recorded(), ElementsAre("begin library: step", "begin library", "end", "end"));
}

TEST_F(NvtxMarksTest, ARangeThatEndsUnderThoseOfAnotherDomainEndsAlone) {
  const auto library = domain("library");
  push("pass");
  push(library, attributes("step"));
  EXPECT_EQ(pop(), 0);
  EXPECT_EQ(pop(library), 0);
  EXPECT_THAT(recorded(), ElementsAre("begin pass", "begin library: step", "end", "end",
                                      "begin library: step", "end"));
}

TEST_F(NvtxMarksTest, OddMessagesDoNoHarm) {
  // On a thread of their own, with which the ranges go that nothing ends.
  std::thread([this] {
    EXPECT_EQ(push(nullptr), 0);
    EXPECT_EQ(push(domain(nullptr), attributes(nullptr)), 0);
    auto unknown = attributes("unknown");
    unknown.messageType = 77;
    EXPECT_EQ(push(nullptr, unknown), 1);
    auto older = attributes("older");
    older.size = 8;
    EXPECT_EQ(push(nullptr, older), 2);
    EXPECT_EQ(module_.call<nvtxDomainRangePushEx_impl_fntype>(NVTX_CBID_CORE2_DomainRangePushEx,
                                                              nullptr, nullptr),
              3);
    EXPECT_EQ(push(std::string(100'000, 'x').c_str()), 4);
  }).join();
  EXPECT_THAT(recorded(), ElementsAre("begin ", "begin ", "begin ", "begin ", "begin ",
                                      "begin " + std::string(512, 'x')));
}

TEST_F(NvtxMarksTest, WhatBeganBeforeTheTraceDoesNotEndInIt) {
  std::thread([this] {
    hooks_disabled = true;  // as before there is a context
    push("before");
    hooks_disabled = false;
    push("within");
    EXPECT_EQ(pop(), 1);
    EXPECT_EQ(pop(), 0);
    EXPECT_EQ(pop(), -1);
  }).join();
  EXPECT_THAT(recorded(), ElementsAre("begin within", "end"));
}

TEST_F(NvtxMarksTest, AModuleWithOtherFunctionsIsLeftAlone) {
  Module older;
  older.core_size = NVTX_CBID_CORE_RangePop;  // it has no pop
  EXPECT_TRUE(attach_to_nvtx(&Module::table));
  EXPECT_EQ(older.replaced() + 1, module_.replaced());
  Module newer;
  Module::callbacks.struct_size = 8;
  EXPECT_FALSE(attach_to_nvtx(&Module::table));
  Module::callbacks.struct_size = sizeof(NvtxExportTableCallbacks);
  EXPECT_EQ(newer.replaced(), 0);
  EXPECT_FALSE(attach_to_nvtx([](std::uint32_t) -> const void* { return nullptr; }));
  EXPECT_FALSE(attach_to_nvtx(nullptr));
  EXPECT_THAT(recorded(), IsEmpty());
}

}  // namespace
}  // namespace superpipe

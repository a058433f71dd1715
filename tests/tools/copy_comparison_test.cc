// Whether runs copied the same: what differs, what is missing, and what changes from run to run.
#include "tools/superpipe/copy_comparison.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace superpipe::cli {
namespace {

using Kind = CopyDifference::Kind;

CopyRecord copy(std::uint64_t thread, std::uint64_t number, std::uint64_t content,
                Bytes bytes = 4_KiB) {
  return {thread, number, bytes, 0, CopyDigest{content, content + 1}, std::nullopt};
}

RunCopies run_of(std::vector<CopyRecord> copies) {
  ProcessCopies process;
  process.copies = std::move(copies);
  return {process};
}

TEST(CopyComparison, RunsThatCopyTheSameAreTheSame) {
  const RunCopies run = run_of({copy(1, 1, 10), copy(1, 2, 20), copy(2, 1, 30)});
  const CopyBaseline baseline(run, run);
  const CopyComparison same = baseline.compare(run);
  EXPECT_EQ(same.compared, 3U);
  EXPECT_EQ(same.bytes, 12_KiB);
  EXPECT_EQ(same.differing, 0U);
  EXPECT_FALSE(same.first.has_value());
  EXPECT_EQ(baseline.varying(), 0U);
  EXPECT_FALSE(baseline.is_unordered());
}

TEST(CopyComparison, TellsWhichShareOfTheBytesIsJudged) {
  const RunCopies first =
      run_of({copy(1, 1, 10, 1_KiB), copy(1, 2, 20, 64_KiB), copy(1, 3, 30, 2_KiB)});
  const RunCopies second =
      run_of({copy(1, 1, 10, 1_KiB), copy(1, 2, 21, 64_KiB), copy(1, 3, 31, 2_KiB)});
  EXPECT_EQ(CopyBaseline(first, first).judged_bytes(), 67_KiB);
  EXPECT_TRUE(CopyBaseline(first, first).largest_not_judged(3).empty());
  const CopyBaseline baseline(first, second);
  EXPECT_EQ(baseline.judged_bytes(), 1_KiB);
  const auto others = baseline.largest_not_judged(3);
  ASSERT_EQ(others.size(), 2U);
  EXPECT_EQ(others[0].copy.number, 2U);
  EXPECT_EQ(others[1].copy.number, 3U);
  EXPECT_EQ(baseline.largest_not_judged(1).size(), 1U);
}

TEST(CopyComparison, JudgesNoCopyThatAGraphMakes) {
  RunCopies run = run_of({copy(1, 1, 10, 1_KiB), copy(1, 2, 20, 64_KiB)});
  run[0].copies[1].digest.reset();
  const CopyBaseline baseline(run, run);
  EXPECT_EQ(baseline.judged_bytes(), 1_KiB);
  ASSERT_EQ(baseline.largest_not_judged(3).size(), 1U);
  EXPECT_EQ(baseline.largest_not_judged(3)[0].copy.number, 2U);
}

ProcessCopies process_at(const std::string& place, std::uint64_t content) {
  ProcessCopies process;
  process.place = place;
  process.copies = {copy(1, 1, content)};
  return process;
}

TEST(CopyComparison, ProcessesThatStartInAnotherOrderAreThoseOfTheirPlace) {
  const RunCopies run = {process_at("RANK=0 python", 10), process_at("RANK=1 python", 20)};
  const RunCopies swapped = {run[1], run[0]};
  const CopyBaseline baseline(run, swapped);
  EXPECT_EQ(baseline.varying(), 0U);
  EXPECT_EQ(baseline.compare(swapped).compared, 2U);
  EXPECT_EQ(baseline.compare(swapped).differing, 0U);
  const RunCopies wrong = {process_at("RANK=1 python", 20), process_at("RANK=0 python", 11)};
  const CopyComparison other = baseline.compare(wrong);
  EXPECT_EQ(other.differing, 1U);
  ASSERT_TRUE(other.first.has_value());
  EXPECT_EQ(other.first->process, 0U);
}

TEST(CopyComparison, ProcessesOfOnePlaceOrOfNewOnesAreToldApartByTheirOrder) {
  const RunCopies run = {process_at("serve", 10), process_at("serve", 20), process_at("at 1", 30)};
  const RunCopies later = {process_at("at 2", 30), process_at("serve", 10), process_at("serve", 20),
                           process_at("more", 40)};
  const CopyBaseline baseline(run, run);
  const CopyComparison other = baseline.compare(later);
  EXPECT_EQ(other.compared, 3U);
  EXPECT_EQ(other.differing, 1U);
  ASSERT_TRUE(other.first.has_value());
  EXPECT_EQ(other.first->kind, Kind::kAdditional);
  EXPECT_EQ(other.first->process, 3U);
}

TEST(CopyComparison, TheFirstCopyWithOtherContentIsNamed) {
  RunCopies run = run_of({copy(1, 1, 10), copy(1, 2, 20), copy(1, 3, 30)});
  run[0].kernels = {"softmax"};
  run[0].sites = {{"load+0x1 a+0x2"}, {"print+0x1 a+0x3", "main+0x1 a+0x4"}};
  run[0].copies[1].site = 2;
  run[0].copies[1].source = CopySource{1_KiB, 8_KiB, CopyLaunch{0, 77}};
  const CopyBaseline baseline(run, run);
  const CopyComparison other =
      baseline.compare(run_of({copy(1, 1, 10), copy(1, 2, 21), copy(1, 3, 31)}));
  EXPECT_EQ(other.differing, 2U);
  ASSERT_TRUE(other.first.has_value());
  EXPECT_EQ(other.first->kind, Kind::kContent);
  EXPECT_EQ(other.first->copy.number, 2U);
  EXPECT_EQ(other.first->copy.source->launch->number, 77U);
  EXPECT_EQ(other.first->kernel, "softmax");
  EXPECT_EQ(other.first->frames, run[0].sites[1]);
}

TEST(CopyComparison, OfTwoThreadsTheDifferenceBehindTheEarlierLaunchIsTheFirst) {
  RunCopies run = run_of({copy(1, 1, 10), copy(2, 1, 20)});
  run[0].copies[0].source = CopySource{{}, 4_KiB, CopyLaunch{0, 50}};
  run[0].copies[1].source = CopySource{{}, 4_KiB, CopyLaunch{0, 40}};
  const CopyComparison other =
      CopyBaseline(run, run).compare(run_of({copy(1, 1, 11), copy(2, 1, 21)}));
  ASSERT_TRUE(other.first.has_value());
  EXPECT_EQ(other.first->copy.thread, 2U);
}

TEST(CopyComparison, MissingAdditionalAndResizedCopiesDiffer) {
  const RunCopies run = run_of({copy(1, 1, 10), copy(1, 2, 20)});
  const CopyBaseline baseline(run, run);
  const auto first = [&baseline](std::vector<CopyRecord> copies) {
    return baseline.compare(run_of(std::move(copies))).first;
  };
  EXPECT_EQ(first({copy(1, 1, 10)})->kind, Kind::kMissing);
  EXPECT_EQ(first({copy(1, 1, 10), copy(1, 2, 20), copy(1, 3, 30)})->kind, Kind::kAdditional);
  EXPECT_EQ(first({copy(1, 1, 10), copy(1, 2, 20, 8_KiB)})->kind, Kind::kSize);
  EXPECT_EQ(baseline.compare({}).first->kind, Kind::kMissing);
  RunCopies more = run;
  more.push_back(run[0]);
  EXPECT_EQ(baseline.compare(more).first->kind, Kind::kAdditional);
  EXPECT_EQ(baseline.compare(more).first->process, 1U);
}

TEST(CopyComparison, ContentThatChangesByItselfIsNotComparedButItsSizeIs) {
  const CopyBaseline baseline(run_of({copy(1, 1, 10), copy(1, 2, 20)}),
                              run_of({copy(1, 1, 10), copy(1, 2, 99)}));
  EXPECT_EQ(baseline.varying(), 1U);
  const CopyComparison same = baseline.compare(run_of({copy(1, 1, 10), copy(1, 2, 55)}));
  EXPECT_EQ(same.differing, 0U);
  EXPECT_EQ(same.compared, 1U);
  EXPECT_EQ(baseline.compare(run_of({copy(1, 1, 11), copy(1, 2, 55)})).differing, 1U);
  EXPECT_EQ(baseline.compare(run_of({copy(1, 1, 10), copy(1, 2, 55, 8_KiB)})).differing, 1U);
}

TEST(CopyComparison, CopiesInChangingOrderAreComparedAsASet) {
  const CopyBaseline baseline(run_of({copy(1, 1, 10), copy(2, 1, 20), copy(2, 2, 30)}),
                              run_of({copy(1, 1, 20), copy(1, 2, 30), copy(2, 1, 10)}));
  EXPECT_TRUE(baseline.is_unordered());
  EXPECT_EQ(baseline.varying(), 0U);
  EXPECT_EQ(baseline.compare(run_of({copy(1, 1, 30), copy(1, 2, 20), copy(1, 3, 10)})).differing,
            0U);
  const CopyComparison other =
      baseline.compare(run_of({copy(1, 1, 30), copy(1, 2, 21), copy(1, 3, 10)}));
  EXPECT_EQ(other.differing, 1U);
  EXPECT_EQ(other.first->copy.digest, copy(2, 1, 20).digest);
}

TEST(CopyComparison, ThreadsThatChangePlacesCopyTheSame) {
  const RunCopies run = run_of({copy(1, 1, 10), copy(2, 1, 20), copy(2, 2, 30)});
  const RunCopies changed = run_of({copy(1, 1, 20), copy(2, 1, 10), copy(2, 2, 30)});
  const CopyBaseline baseline(run, run);
  const CopyComparison other = baseline.compare(changed);
  EXPECT_EQ(other.compared, 3U);
  EXPECT_EQ(other.bytes, 12_KiB);
  EXPECT_EQ(other.differing, 0U);
  EXPECT_EQ(CopyBaseline(run, changed).varying(), 0U) << "nor do they vary from run to run";
  EXPECT_TRUE(CopyBaseline(run, changed).is_unordered());
  const CopyComparison wrong =
      baseline.compare(run_of({copy(1, 1, 20), copy(2, 1, 10), copy(2, 2, 31)}));
  EXPECT_EQ(wrong.differing, 3U) << "compared in order";
  const CopyComparison more =
      baseline.compare(run_of({copy(1, 1, 20), copy(2, 1, 10), copy(2, 2, 30), copy(2, 3, 30)}));
  EXPECT_EQ(more.differing, 3U);
}

TEST(CopyComparison, CopiesOfOneThreadThatChangePlacesDiffer) {
  const RunCopies run = run_of({copy(1, 1, 10), copy(1, 2, 20)});
  EXPECT_EQ(CopyBaseline(run, run).compare(run_of({copy(1, 1, 20), copy(1, 2, 10)})).differing, 2U);
}

TEST(CopyComparison, OneContentOfTwoThatAreAlikeIsMissed) {
  const CopyBaseline baseline(run_of({copy(1, 1, 10), copy(2, 1, 10)}),
                              run_of({copy(1, 1, 10), copy(1, 2, 10)}));
  EXPECT_EQ(baseline.compare(run_of({copy(1, 1, 10), copy(1, 2, 11)})).differing, 1U);
}

TEST(CopyComparison, WhatGraphsCopyIsCountedAndNotCompared) {
  RunCopies run = run_of({copy(1, 1, 10), copy(1, 2, 20)});
  run[0].copies[1].digest.reset();
  const CopyBaseline baseline(run, run);
  EXPECT_EQ(baseline.unseen(), 1U);
  EXPECT_EQ(baseline.compare(run).compared, 1U);
  EXPECT_EQ(baseline.compare(run).differing, 0U);
}

}  // namespace
}  // namespace superpipe::cli

#include "tools/superpipe/copy_comparison.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace superpipe::cli {
namespace {

using Kind = CopyDifference::Kind;
using Content = std::tuple<Bytes, std::optional<CopyDigest>>;

bool is_same_place(const CopyRecord& a, const CopyRecord& b) {
  return a.thread == b.thread && a.number == b.number;
}

// Whether the runs made copies of the same sizes in the same places.
bool are_alike(const std::vector<CopyRecord>& a, const std::vector<CopyRecord>& b) {
  bool alike = a.size() == b.size();
  for (std::size_t i = 0; alike && i < a.size(); ++i) {
    alike = is_same_place(a[i], b[i]) && a[i].bytes == b[i].bytes;
  }
  return alike;
}

bool have_same_content(const std::vector<CopyRecord>& a, const std::vector<CopyRecord>& b) {
  return std::ranges::equal(a, b, {}, &CopyRecord::digest, &CopyRecord::digest);
}

bool is_by_several_threads(const ProcessCopies& process) {
  return std::ranges::any_of(process.copies, [&](const CopyRecord& copy) {
    return copy.thread != process.copies.front().thread;
  });
}

std::map<Content, std::uint64_t> counted(const std::vector<CopyRecord>& copies) {
  std::map<Content, std::uint64_t> counts;
  for (const CopyRecord& copy : copies) ++counts[{copy.bytes, copy.digest}];
  return counts;
}

// Takes one of that content out of `counts`. @return whether there was one.
bool take(std::map<Content, std::uint64_t>& counts, const CopyRecord& copy) {
  const auto at = counts.find({copy.bytes, copy.digest});
  if (at == counts.end() || at->second == 0) return false;
  --at->second;
  return true;
}

bool is_earlier(const CopyDifference& a, const CopyDifference& b) {
  if (a.process != b.process) return a.process < b.process;
  const auto launch = [](const CopyDifference& difference) {
    const auto& source = difference.copy.source;
    return source && source->launch ? source->launch->number : 0;
  };
  if (launch(a) != 0 && launch(b) != 0) return launch(a) < launch(b);
  return std::pair(a.copy.number, a.copy.thread) < std::pair(b.copy.number, b.copy.thread);
}

}  // namespace

CopyBaseline::CopyBaseline(const RunCopies& first, const RunCopies& second) {
  for (const ProcessCopies& process : first) processes_.push_back({process, {}, true});
  const std::vector<const ProcessCopies*> others_of = paired(second);
  for (std::size_t index = 0; index < processes_.size(); ++index) {
    Process& process = processes_[index];
    const std::vector<CopyRecord>& copies = process.copies.copies;
    const std::vector<CopyRecord> none;
    const ProcessCopies* const same = others_of[index];
    const std::vector<CopyRecord>& others = same != nullptr ? same->copies : none;
    process.ordered = are_alike(copies, others) &&
                      (!is_by_several_threads(process.copies) || have_same_content(copies, others));
    auto counts = counted(others);
    for (std::size_t i = 0; i < copies.size(); ++i) {
      process.varies.push_back(process.ordered ? copies[i].digest != others[i].digest
                                               : !take(counts, copies[i]));
    }
  }
}

std::vector<const ProcessCopies*> CopyBaseline::paired(const RunCopies& run) const {
  std::vector<const ProcessCopies*> pairs(processes_.size());
  std::vector<const ProcessCopies*> others;
  for (const ProcessCopies& process : run) {
    std::size_t index = 0;
    while (index < pairs.size() &&
           (pairs[index] != nullptr || processes_[index].copies.place != process.place)) {
      ++index;
    }
    if (index < pairs.size()) {
      pairs[index] = &process;
    } else {
      others.push_back(&process);
    }
  }
  auto next = others.begin();
  for (const ProcessCopies*& pair : pairs) {
    if (pair == nullptr && next != others.end()) pair = *next++;
  }
  pairs.insert(pairs.end(), next, others.end());
  return pairs;
}

CopyComparison CopyBaseline::compare(const RunCopies& run) const {
  CopyComparison result;
  const ProcessCopies none;
  const std::vector<const ProcessCopies*> pairs = paired(run);
  for (std::size_t index = 0; index < processes_.size(); ++index) {
    const ProcessCopies& other = pairs[index] != nullptr ? *pairs[index] : none;
    CopyComparison found = compare_process(index, other);
    result.compared += found.compared;
    result.bytes += found.bytes;
    result.differing += found.differing;
    if (!result.first) result.first = std::move(found.first);
  }
  for (std::size_t index = processes_.size(); index < pairs.size(); ++index) {
    for (const CopyRecord& copy : pairs[index]->copies)
      note(index, Kind::kAdditional, copy, *pairs[index], result);
  }
  return result;
}

// Threads are numbered by their first copies, so that two may change places from run to run, and
// the threads of a pool share copies as they come.
CopyComparison CopyBaseline::compare_process(std::size_t index, const ProcessCopies& run) const {
  const Process& process = processes_[index];
  CopyComparison in_order;
  if (process.ordered) compare_in_order(index, run, in_order);
  const bool may_be_another_order =
      !process.ordered || (in_order.differing > 0 && is_by_several_threads(process.copies) &&
                           run.copies.size() == process.copies.copies.size());
  if (!may_be_another_order) return in_order;
  CopyComparison as_set;
  compare_as_set(index, run, as_set);
  return process.ordered && as_set.differing > 0 ? in_order : as_set;
}

void CopyBaseline::compare_in_order(std::size_t index, const ProcessCopies& run,
                                    CopyComparison& into) const {
  const Process& process = processes_[index];
  const auto place = [](const CopyRecord& copy) { return std::pair(copy.thread, copy.number); };
  auto other = run.copies.begin();
  for (std::size_t i = 0; i < process.copies.copies.size(); ++i) {
    const CopyRecord& copy = process.copies.copies[i];
    for (; other != run.copies.end() && place(*other) < place(copy); ++other) {
      note(index, Kind::kAdditional, *other, run, into);
    }
    if (other == run.copies.end() || !is_same_place(*other, copy)) {
      note(index, Kind::kMissing, copy, process.copies, into);
      continue;
    }
    const bool compares_content = process.judges(i);
    if (other->bytes != copy.bytes) {
      note(index, Kind::kSize, copy, process.copies, into);
    } else if (compares_content && other->digest != copy.digest) {
      note(index, Kind::kContent, copy, process.copies, into);
    }
    into.compared += compares_content ? 1U : 0U;
    into.bytes += compares_content ? copy.bytes : Bytes{};
    ++other;
  }
  for (; other != run.copies.end(); ++other) note(index, Kind::kAdditional, *other, run, into);
}

void CopyBaseline::compare_as_set(std::size_t index, const ProcessCopies& run,
                                  CopyComparison& into) const {
  const Process& process = processes_[index];
  auto counts = counted(run.copies);
  for (std::size_t i = 0; i < process.copies.copies.size(); ++i) {
    const CopyRecord& copy = process.copies.copies[i];
    if (!process.judges(i)) continue;
    ++into.compared;
    into.bytes += copy.bytes;
    if (!take(counts, copy)) note(index, Kind::kMissing, copy, process.copies, into);
  }
}

void CopyBaseline::note(std::size_t process, Kind kind, const CopyRecord& copy,
                        const ProcessCopies& of, CopyComparison& into) {
  ++into.differing;
  CopyDifference difference{kind, process, copy};
  difference.frames = of.frames_of(copy);
  if (kind != Kind::kAdditional && copy.source && copy.source->launch) {
    const std::size_t kernel = copy.source->launch->kernel;
    if (kernel < of.kernels.size()) difference.kernel = of.kernels[kernel];
  }
  if (!into.first || is_earlier(difference, *into.first)) into.first = std::move(difference);
}

std::uint64_t CopyBaseline::copies() const {
  std::uint64_t sum = 0;
  for (const Process& process : processes_) sum += process.copies.copies.size();
  return sum;
}

Bytes CopyBaseline::bytes() const {
  Bytes sum;
  for (const Process& process : processes_) {
    for (const CopyRecord& copy : process.copies.copies) sum += copy.bytes;
  }
  return sum;
}

std::uint64_t CopyBaseline::varying() const {
  std::uint64_t sum = 0;
  for (const Process& process : processes_) {
    for (const bool varies : process.varies) sum += varies ? 1U : 0U;
  }
  return sum;
}

std::uint64_t CopyBaseline::unseen() const {
  std::uint64_t sum = 0;
  for (const Process& process : processes_) {
    for (const CopyRecord& copy : process.copies.copies) sum += copy.digest ? 0U : 1U;
  }
  return sum;
}

Bytes CopyBaseline::judged_bytes() const {
  Bytes sum;
  for (const Process& process : processes_) {
    for (std::size_t i = 0; i < process.varies.size(); ++i) {
      if (process.judges(i)) sum += process.copies.copies[i].bytes;
    }
  }
  return sum;
}

std::vector<NotJudged> CopyBaseline::largest_not_judged(std::size_t most) const {
  std::vector<NotJudged> others;
  for (std::size_t index = 0; index < processes_.size(); ++index) {
    const Process& process = processes_[index];
    for (std::size_t i = 0; i < process.varies.size(); ++i) {
      if (!process.judges(i)) others.push_back({index, process.copies.copies[i]});
    }
  }
  std::ranges::stable_sort(
      others, [](const NotJudged& a, const NotJudged& b) { return a.copy.bytes > b.copy.bytes; });
  if (others.size() > most) others.resize(most);
  return others;
}

bool CopyBaseline::is_unordered() const {
  for (const Process& process : processes_) {
    if (!process.ordered) return true;
  }
  return false;
}

}  // namespace superpipe::cli

#include "interposer/leftover_words.h"

namespace superpipe {

void LeftoverWords::note(const KernelLayout& layout, const WordList& words,
                         const std::vector<Seen>& seen) {
  std::uint64_t operands = 0;
  for (const std::uint64_t word : words.words()) {
    std::uint64_t mixed = word * 0x9E3779B97F4A7C15ULL;
    mixed ^= mixed >> 32;
    operands += mixed * mixed;
  }
  const std::lock_guard lock(mutex_);
  History& history = histories_[&layout];
  const bool others_changed = operands != history.operands;
  history.operands = operands;
  auto known = history.seen.begin();
  for (const Seen& now : seen) {
    while (known != history.seen.end() && known->probe < now.probe) ++known;
    if (known == history.seen.end() || known->probe != now.probe) {
      known = history.seen.insert(known, now);
    } else if (known->word != now.word) {
      known->word = now.word;
      known->has_changed = true;
    } else if (others_changed) {
      ++known->same;
    }
  }
}

bool LeftoverWords::is_suspected(const KernelLayout& layout, std::uint32_t probe,
                                 std::uint64_t word) const noexcept {
  const auto history = histories_.find(&layout);
  if (history == histories_.end()) return false;
  const std::vector<Seen>& seen = history->second.seen;
  const auto known =
      std::ranges::lower_bound(seen, probe, {}, [](const Seen& each) { return each.probe; });
  return known != seen.end() && known->probe == probe && known->word == word &&
         !known->has_changed && known->same >= kSuspected;
}

}  // namespace superpipe

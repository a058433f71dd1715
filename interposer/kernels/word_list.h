// The words of an operation that may be device addresses.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <vector>

namespace superpipe {

/// A list of words that allocates nothing while it is short. Lives on a hook's stack; its inline
/// part is left uninitialised, because clearing it would cost more than the whole scan.
class WordList {
 public:
  static constexpr std::size_t kInline = 128;

  WordList() {}  // NOLINT(modernize-use-equals-default): members stay uninitialised
  WordList(const WordList&) = delete;
  WordList& operator=(const WordList&) = delete;

  /// Appends `word`. Allocates past kInline words; if that fails, failed() says so.
  void add(std::uint64_t word) noexcept {
    if (size_ < kInline) [[likely]] {
      inline_[size_++] = word;
      return;
    }
    add_slowly(word);
  }

  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Whether words were lost for want of memory: the operation must then fail.
  [[nodiscard]] bool failed() const noexcept { return failed_; }
  /// There may be words that could not be looked for.
  void fail() noexcept { failed_ = true; }
  /// All words, in the order of adding. Valid until the next add().
  [[nodiscard]] std::span<const std::uint64_t> words() const noexcept {
    return size_ <= kInline ? std::span(inline_.data(), size_) : std::span(more_);
  }

 private:
  // Kept out of add(), which is small enough to be inlined wherever a launch's words are collected.
  [[gnu::noinline, gnu::cold]] void add_slowly(std::uint64_t word) noexcept {
    try {
      if (size_ == kInline) more_.assign(inline_.begin(), inline_.end());
      more_.push_back(word);
      size_ = more_.size();
    } catch (const std::bad_alloc&) {
      failed_ = true;
    }
  }

  std::size_t size_ = 0;
  bool failed_ = false;
  std::array<std::uint64_t, kInline> inline_;
  std::vector<std::uint64_t> more_;
};

}  // namespace superpipe

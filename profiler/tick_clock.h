// The steady clock, read through the processor's counter of ticks wherever that is as good.
#pragma once

#include <chrono>
#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

namespace superpipe {

/// The steady clock, and a counter that is cheaper to read: the processor's own takes a third of
/// the time. On other processors it is the clock once more.
struct ProcessorTime {
  using TimePoint = std::chrono::steady_clock::time_point;

  static TimePoint now() noexcept { return std::chrono::steady_clock::now(); }
  /// Processors count 1 to 5 ticks in a nanosecond.
  static std::uint64_t ticks() noexcept {
#if defined(__x86_64__)
    return __rdtsc();
#else
    return static_cast<std::uint64_t>(now().time_since_epoch().count());
#endif
  }
  /// Whether the processor says that its counter runs at one rate, whatever the processor does.
  static bool counts_steadily() noexcept {
#if defined(__x86_64__)
    static const bool steadily = [] {
      constexpr unsigned kPowerManagement = 0x80000007;
      constexpr unsigned kInvariant = 1U << 8;  // of EDX
      unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
      return __get_cpuid(kPowerManagement, &eax, &ebx, &ecx, &edx) != 0 && (edx & kInvariant) != 0;
    }();
    return steadily;
#else
    return false;
#endif
  }
};

/// One thread's steady clock. `Time` has the functions of ProcessorTime.
///
/// It reads the clock itself now and then, and adds the ticks since to what that said: for kReach
/// ticks at most, about 0.1 ms, so that a counter that is wrong, because the thread or the whole
/// machine moved to another processor, makes times wrong by no more. How long a tick is it takes
/// from its readings of the clock, once two measurements in a row agree to a thousandth, and is off
/// by no more then. Until then it reads the clock each time, and always where the counter is not
/// steady, or slower than the clock, or where to read the clock takes longer than
/// kMostTicksOfReading.
template <typename Time>
class BasicTickClock {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  static constexpr std::uint32_t kReach = std::uint32_t{1} << 18;
  /// Readings of the clock that a measurement needs between them.
  static constexpr std::chrono::milliseconds kLeastSpan{1};
  /// Ticks in which the clock is read, if nothing interrupts that: else it is not known which of
  /// them belongs to the time.
  static constexpr std::uint64_t kMostTicksOfReading = 512;

  constexpr BasicTickClock() = default;

  /// The time when the counter was at `ticks`, which was read just now.
  [[nodiscard]] TimePoint at(std::uint64_t ticks) noexcept {
    // Before `ticks_` it is beyond the reach as well, for the difference has no sign.
    const std::uint64_t since = ticks - ticks_;
    if (since >= reach_) [[unlikely]]
      return read();
    const auto passed = static_cast<std::int64_t>((since * length_) >> kLengthBits);
    return time_ + std::chrono::nanoseconds{passed};
  }

  /// The time, by the clock itself.
  [[gnu::noinline]] TimePoint read() noexcept {
    if (!Time::counts_steadily()) return Time::now();
    const std::uint64_t before = Time::ticks();
    const TimePoint now = Time::now();
    const std::uint64_t taken = Time::ticks() - before;
    // Else what was read before stays, and is too far for the next reading as well.
    if (taken <= kMostTicksOfReading) {
      time_ = now;
      ticks_ = before + taken / 2;
      measure();
    }
    return now;
  }

 private:
  static constexpr int kLengthBits = 31;
  static constexpr std::uint32_t kLongestTick = std::uint32_t{1} << kLengthBits;  // 1 ns

  /// Measures how long a tick is, where the last measurement began long enough ago.
  void measure() noexcept {
    const std::chrono::nanoseconds span = time_ - began_;
    if (span < kLeastSpan) return;
    const std::uint64_t ticks = ticks_ - began_ticks_;
    began_ = time_;
    began_ticks_ = ticks_;
    const double exact =
        static_cast<double>(span.count()) / static_cast<double>(ticks) * kLongestTick;
    const std::uint32_t length = exact <= kLongestTick ? static_cast<std::uint32_t>(exact) : 0;
    const std::uint32_t off = length > length_ ? length - length_ : length_ - length;
    reach_ = length > 0 && off <= length >> 10 ? kReach : 0;
    length_ = length;
  }

  TimePoint time_;           ///< as the clock was read last,
  std::uint64_t ticks_ = 0;  ///< when the counter was here
  TimePoint began_;          ///< the measurement under way
  std::uint64_t began_ticks_ = 0;
  std::uint32_t reach_ = 0;   ///< ticks behind ticks_ for which the counter serves
  std::uint32_t length_ = 0;  ///< of a tick, in nanoseconds / 2^kLengthBits
};

using TickClock = BasicTickClock<ProcessorTime>;

}  // namespace superpipe

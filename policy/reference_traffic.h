// How many bytes cross the link to the device where only bytes count: the least possible, LRU, BIP.
#pragma once

#include "policy/launch_sequence.h"
#include "policy/units.h"

namespace superpipe {

/// Which bytes leave when a launch needs room. Nothing is fetched before a launch names it.
enum class Replacement {
  /// Belady's MIN (IBM Systems Journal 5(2), 1966) on single bytes: of the buffer whose next use is
  /// furthest as many bytes as are lacking, then of the next one.
  ///
  /// The bytes of a buffer are so many pages of one size that are used together, and for pages of
  /// one size it is optimal to evict the furthest next use, also where a launch needs several at
  /// once and holds them. So no schedule fetches fewer bytes, in whole buffers or in parts, with
  /// prefetches or without.
  kMin,
  /// Whole buffers, those first that were used longest ago; of one launch's, in the order named.
  kLru,
  /// Bimodal insertion (Qureshi, Jaleel, Patt, Steely, Emer, ISCA 2007) of whole buffers: as LRU,
  /// but what is fetched counts as used longest ago until it is used again, except each 32nd. So a
  /// part of a cycle stays.
  kBip,
};

/// The bytes that `sequence` fetches, from an empty device on, with at most `fit` bytes of its
/// buffers on the device, or the largest working set where that is more. `compute` is not used.
///
/// Pure. O(accesses * log buffers).
[[nodiscard]] Bytes fetched_bytes(const LaunchSequence& sequence, Bytes fit,
                                  Replacement replacement);

/// The mean bytes that a pass fetches when the launches of `pass` are repeated without end, rounded
/// down to whole bytes. For kMin no schedule fetches fewer in the mean.
///
/// Passes are simulated until one ends with the same bytes on the device as one before, and what
/// lies between is counted: exact. Where that does not happen in 4096 passes, or in four million
/// accesses, what lies behind the first pass is. For kMin the result then is off by no more than
/// the device bytes over the number of passes; LRU repeats itself after a few. For kBip, which
/// also counts what it has fetched, it is an estimate.
///
/// Pure. O(passes simulated * accesses * log buffers): at most a few seconds, mostly far less.
[[nodiscard]] Bytes fetched_bytes_per_pass(const LaunchSequence& pass, Bytes fit,
                                           Replacement replacement);

}  // namespace superpipe

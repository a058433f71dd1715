// How long launches take at least, whatever the order in which they name their buffers.
#pragma once

#include "policy/launch_sequence.h"
#include "policy/timing_model.h"
#include "policy/units.h"

namespace superpipe {

/// What no schedule can beat that runs `sequence` with at most `fit` bytes of its buffers on the
/// device, however it fetches and evicts, and whatever is on the device when it begins.
///
/// A window opens when launch i ends and closes when a launch j > i ends. When it opens, launch i's
/// buffers are on the device, and at most `fit` bytes in all. So D(i..j) - fit bytes have to cross
/// the link before launch j can start, D(i..j) being the bytes of the distinct buffers that
/// launches i to j name, without those that launches i+1 to j make before others name them. The
/// window takes at least the longer of
///
///     compute of i+1..j    and    (D(i..j) - fit) / link + compute of j,
///
/// and windows that do not overlap add up. The first may open at the beginning, where nothing is
/// known to be on the device. The bound is the best sum of windows, found exactly but for rounding:
/// allow for a relative error of 1e-9 where equality matters.
///
/// Where single bytes can be moved at no cost but their time on the link, a schedule reaches the
/// bound, except for room that buffers take before they are made and after they are freed:
/// Aggressive (Cao, Felten, Karlin, Li, SIGMETRICS 1995). It always fetches the missing byte that
/// is used next, for which the byte leaves whose next use is furthest, if that is later. Say launch
/// j waits for the link, and launch i was the last one in which the link stood still. At its end
/// the device was full of what is used next, and since then D(i..j) - fit bytes have crossed, each
/// once. So whatever is measured above the bound is the cost of moving larger pieces, or of the
/// program's launches being foreseen wrongly, or is avoidable.
///
/// It is assumed that launches do not overlap each other, that evictions take no time, and that a
/// launch needs all bytes of its buffers when it starts. Where `fit` is less than the largest
/// working set, no schedule runs that launch in it, and the bound is that for the largest working
/// set.
///
/// Pure. O(accesses + buffers) but for the inverse Ackermann function.
/// REQUIRES: host_to_device.bytes_per_second > 0.
/// @return zero for an empty sequence.
[[nodiscard]] Seconds windowed_bound(const LaunchSequence& sequence, Bytes fit,
                                     Bandwidth host_to_device);

/// What the mean pass cannot beat when the launches of `pass` are repeated without end. A single
/// pass may be shorter, at the cost of others.
///
/// It is the best sum of windows between the end of one launch of a pass and the end of the same
/// launch m passes later, over m. A program that runs passes without end gets from the one to the
/// other again and again, so the mean is no less, whichever launch and m are taken. (The
/// windowed_bound() of m + 1 passes less that of m is no bound: a window that spans passes may
/// count in full.)
///
/// The launch is one where a window of the best sum ends, and m is the best of those tried: all up
/// to 1024, or until the passes have two million launches and accesses. So the result is at or
/// below the best bound of this kind. It is equal where windows of the best sum end at that launch
/// again within the passes tried. Else it is less by no more than two windows, over the passes
/// tried.
///
/// At least physical_bound() for the same `fit`, raised as above: the longer of compute and
/// (W - fit) / link. Without compute it is n / (n - 1) times that for n launches that each have a
/// buffer of their own, all of one size, because the buffer of the launch that has just ended takes
/// room; and for a forward and a backward pass it is twice that.
///
/// Pure. O(passes tried * accesses + buffers), as above: well below a second.
/// REQUIRES: host_to_device.bytes_per_second > 0.
/// @return zero for an empty pass.
[[nodiscard]] Seconds windowed_bound_per_pass(const LaunchSequence& pass, Bytes fit,
                                              Bandwidth host_to_device);

}  // namespace superpipe

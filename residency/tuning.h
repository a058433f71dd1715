// The numbers of residency/ that trade one behaviour for another, each with what it was tuned on.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "policy/units.h"

/// Each constant says what it does, and then where its value comes from:
///   - "Tuned on": what was measured or tried when it was set, by docs/decisions/ or the history.
///   - "Follows from": what it is derived from.
///   - "Not measured": neither the documentation nor the history names a measurement of it. What
///     stands behind that is the reason that was given, if there is one.
///
/// Fixed sizes of structures and files, values that stand for "none", and capacities that only
/// bound memory are no tuning: they stay with the class that has them. Some classes have a constant
/// under a name of their own as well, for their tests.
namespace superpipe::tuning {

// ---- Device and driver ----

/// Uses in a span of FreedLately: a freed buffer that was last used in this span or the one before
/// it is expected to be allocated again soon, so that other pages are taken first.
/// Tuned on: LLaMA reading a prompt on an H200 in 60 % of its memory, which changed 1,060 mappings
/// a pass for 630 pieces of content. In virtual time a pass took 64 and 61 ms at 50 and 90 % before
/// FreedLately, and 36 and 35 with it. Other lengths of a span are not on record.
inline constexpr std::uint64_t kFreedLatelyUses = 32;

/// Freed buffers that PageSupply passes over when it looks for pages, because another stream still
/// uses them: each one costs questions to the driver, and younger ones behind it may be free.
/// Not measured.
inline constexpr std::size_t kFreedBuffersPassed = 4;

/// Times that a mapped piece is opened to further devices before an error counts: it may have been
/// unmapped during the call, which then fails for nothing.
/// Not measured.
inline constexpr int kAccessAttempts = 3;

/// How long DevicePressure lets small gains wait after the room shrank, so that a neighbour that
/// allocates and frees little moves nothing.
/// Not measured: two processes that yield to each other settle by that (docs/residency.md).
inline constexpr std::chrono::seconds kDevicePressureSettled{1};

// ---- Link ----

/// Fetches that may be under way apart from the others, each on a stream of its own, behind work of
/// the program that may not end. One more demand of that kind waits until a stream is free.
/// Not measured.
inline constexpr std::size_t kFetchesApart = 4;

/// Bytes of a piece for each microsecond that its content may take on the link, besides
/// kOperationPatience, before it is mapped without having arrived.
/// Follows from: a quarter of the speed of the slowest link that was thought of, 1 GB/s.
inline constexpr std::uint64_t kLateBytesOfMicrosecond = 250;

/// As many transfers as keep the link busy while the next one is prepared: all but one may still
/// wait for what their pages held to be written back.
/// Not measured.
inline constexpr std::size_t kLinkEnoughTransfers = 3;

/// As many bytes of them, which take half a millisecond on the fastest links.
/// Not measured.
inline constexpr Bytes kLinkEnoughBytes = 16_MiB;

/// But no more than one part in so many of the room: what is on its way is of no use meanwhile.
/// Not measured.
inline constexpr std::uint64_t kLinkPartsOfRoom = 64;

/// What waits behind the transfer on the link takes long if it takes so many seconds. Then neither
/// the number of transfers nor their bytes decide, but only kLinkTimesWriteBack.
/// Tuned on: 16 layers of 8 MiB, 20 ms each, over 0.1 GB/s. At 30, 50, 70 and 90 % 1.13, 1.16, 1.24
/// and 1.06 times the windowed bound became 1.08, 1.11, 1.19 and 1.02 (docs/decisions/0023).
inline constexpr double kLinkLongSeconds = 2e-3;

/// All that is under way has to take so many times as long as the longest write-back of the last
/// evictions, because what goes for the next piece may have to be written back as well.
/// Tuned on: LLaMA decoding over 0.2 GB/s at 50 to 80 %, whose passes became 0.82 to 0.85 times as
/// long; with twice in place of 1.25 times they were up to 8 % longer (docs/decisions/0023).
inline constexpr double kLinkTimesWriteBack = 1.25;

/// The last evictions are so many.
/// Tuned on: the same; with two to four passes were up to 8 % longer.
inline constexpr std::size_t kLinkLastEvictions = 8;

/// A transfer is stuck if it takes so long, and so many times as long as the link needs for it:
/// before it come the write-backs of what was in its place.
/// Not measured: without the second part a slow link counted as stuck (docs/decisions/0023).
inline constexpr std::chrono::milliseconds kLinkStuck{100};
inline constexpr double kLinkStuckTimes = 3;

/// While the link or a launch rests, it is looked again after so long at the latest: launches may
/// come sooner than expected.
/// Not measured: a look of a launch that rests takes 3 us of the mutex (docs/decisions/0023).
inline constexpr std::chrono::microseconds kRestLongestLook{250};
/// And after so long at the soonest.
/// Not measured.
inline constexpr std::chrono::microseconds kRestShortestLook{20};

/// Fetches take as if they were so many times as long, before the link or a launch rests: other
/// processes may use the link, and what has to go for them may be in use.
/// Tuned on: virtual time and plans of traced runs. Passes differed by hundredths in either
/// direction between one and a third and four times, and four moved up to a third more
/// (docs/decisions/0021).
inline constexpr double kFetchMargin = 2;

/// What it takes until the link begins, in seconds.
/// Not measured.
inline constexpr double kFetchReserve = 300e-6;

/// And for a launch that waits: the longer the host waits the less it is ahead of the device, and
/// by that much what nothing foresaw may come late.
/// Tuned on: virtual time. With 0.3 ms in its place passes of training and of speculative decoding
/// became up to 1.05 times as long (docs/decisions/0023).
inline constexpr double kDemandReserve = 4e-3;

/// The weight of a fetch in the mean of all, and the fetches before which nothing rests.
/// Not measured.
inline constexpr double kFetchWeight = 1.0 / 16;
inline constexpr std::uint64_t kFetchesBeforeRests = 8;

/// So many passes are looked back upon. What takes the one that leaves the least time is not misled
/// by one in which the program waited for its user.
/// Not measured.
inline constexpr std::uint64_t kPassesLookedBack = 3;

// ---- Launches that wait ----

/// How long an operation of the program counts on work of the program to come to its end, where
/// there is something else that it can do (I7), and the part of the wait limit that this takes at
/// most.
/// Not measured.
inline constexpr std::chrono::milliseconds kOperationPatience{500};
inline constexpr int kOperationPatiencePart = 4;

/// Marks of a stream that are awaited at once. Launches mark their ends by buffers used, so that
/// more marks let buffers become free in smaller parts of the room, and cost more events.
/// Tuned on: 16 layers of 8 MiB, 20 ms each, over 0.1 GB/s on simgpu. With launches that mark their
/// ends, and 64 in place of 32, passes at 50, 70 and 90 % took 1.12, 1.22 and 1.01 times the
/// windowed bound, where they took 1.15, 1.38 and 1.11 (docs/decisions/0025).
inline constexpr std::size_t kMarksAwaited = 64;

/// The worker's looks add marks only while fewer are awaited: looks come however little was used in
/// between, and filled the places of launches.
/// Not measured: a half for each (docs/decisions/0025).
inline constexpr std::size_t kMarksOfLooks = kMarksAwaited / 2;

/// A launch marks its end once buffers of one in so many of the room have been used.
/// Follows from: the places that looks leave then reach over all that the device has room for.
inline constexpr std::uint64_t kMarksOfRoom = kMarksAwaited - kMarksOfLooks;

/// With so many uses of streams without a slot, kSharedUsesAsked of them are asked about at each
/// further use, so that those that are over make room: more questions slow a launch down, fewer let
/// the list grow.
/// Not measured.
inline constexpr std::size_t kSharedUsesMany = 64;
inline constexpr std::size_t kSharedUsesAsked = 4;

/// A launch that rested so long while the device did nothing rested in vain.
/// Not measured: as long as kDemandReserve.
inline constexpr std::chrono::milliseconds kRestInVain{4};

/// After rests in vain at most so many launches do not rest.
/// Not measured.
inline constexpr std::uint32_t kRestMostLeftOut = 4096;

/// Times that the driver may refuse pages for one launch though they are within the limit, beside
/// those of its own pieces.
/// Not measured.
inline constexpr std::size_t kAdmissionFullDevices = 8;

/// A thread that waits for a change looks again after so long: some changes are announced, and some
/// are not, as the end of an event.
/// Not measured.
inline constexpr std::chrono::milliseconds kChangeLongestSleep{10};

// ---- Evictions and digests ----

/// How long a digest is waited for after the one before it, besides the time for its bytes: kernels
/// of the program may keep it from running, and the page is wanted. The piece is then written back.
/// Not measured: docs/decisions/0010 says that only hardware can tell how long digests queue.
inline constexpr std::chrono::milliseconds kDigestPatience{5};

/// Bytes of a piece for each nanosecond that its digest is waited for longer.
/// Follows from: digests take a sixth of that time on the slowest memory that was thought of, so
/// some 300 GB/s. An H200 computes them at 3,808 GB/s (docs/measurements, H9).
inline constexpr std::uint64_t kDigestBytesOfNanosecond = 50;

/// Content that digests found changed so often in a row is written back without waiting for its
/// digest, as that of caches and optimizer states.
/// Not measured: docs/decisions/0010 gives the rule.
inline constexpr std::uint8_t kDigestMostChanges = 2;

/// How long a page is not given on under its digest: digests mostly come within that, and a digest
/// whose page is filled before is of no use.
/// Follows from: over a link of 55 GB/s a small piece is written back sooner than the next page is
/// mapped, so that each digest of a page given on at once might be lost. Why 100 us is not on
/// record.
inline constexpr std::chrono::microseconds kDigestKeepsPage{100};

/// How long a page that waits for nothing but its digest is not given on. Behind a write-back,
/// which takes longer, it is given on after kDigestKeepsPage.
/// Not measured.
inline constexpr std::chrono::milliseconds kDigestKeepsFreePage{1};

/// What HostDigests reads in one step: a thread of the program that writes to the piece waits for
/// that.
/// Follows from: half a millisecond at 4 GB/s, the speed of digests on the host.
inline constexpr Bytes kHostDigestStep = 2_MiB;

/// HostDigests leaves a piece alone for so long after the program began to write to it. While no
/// piece can be read it looks again after that time, then after twice as long each time.
/// Not measured.
inline constexpr std::chrono::milliseconds kHostDigestQuiet{1};
inline constexpr std::chrono::milliseconds kHostDigestLongestRest{1024};

/// Pieces that HostDigests looks at in one round, in which others wait for the manager's mutex.
/// Not measured.
inline constexpr int kHostDigestMostLooks = 16;

/// How long Precleaner rests while no piece can be copied: twice as long each time, from the
/// shortest to the longest rest.
/// Not measured.
inline constexpr std::chrono::milliseconds kPrecleanShortestRest{1};
inline constexpr std::chrono::milliseconds kPrecleanLongestRest{64};

/// Pieces that Precleaner looks at in one round for one that can be copied: launches wait for the
/// manager's mutex meanwhile.
/// Not measured.
inline constexpr int kPrecleanMostLooks = 64;

/// Precleaner takes a buffer that was used within so many uses to be still in the making, and
/// copies it later.
/// Not measured alone: with Precleaner as it was added, first passes were within 1.05 times the
/// windowed bound in 54 of 70 cells of virtual time, in place of 44.
inline constexpr std::uint64_t kPrecleanUsesSince = 8;

/// How often a piece is copied that the program fills anew while it loads.
/// Follows from: a model that is made on the device and then read from a file is filled twice
/// (docs/decisions/0014).
inline constexpr int kPrecleanMostCopies = 2;

/// Runs of a first pass in virtual time, each with what the runs before it needed, of which a plan
/// is made.
/// Not measured: what they write back hardly changes after a few (docs/decisions/0014).
inline constexpr int kPlanningRuns = 4;

/// Runs that copy ahead what the last of kPlanningRuns wrote back: other pieces leave then, and
/// need slabs.
/// Tuned on: the programs and budgets of virtual time. To put into the plan what this run writes
/// back in turn made other cells worse (docs/decisions/0014).
inline constexpr int kPlanningRunsThatPreclean = 1;

/// Buffers that may be looked at in vain for a victim that is not urgent: launches wait for the
/// mutex. And so many that cannot be moved at all: to pass one by takes less.
/// Not measured.
inline constexpr int kVictimsRefused = 256;
inline constexpr int kVictimsImmovable = 4096;

/// Buffers that are compared by what their eviction costs before one is taken that costs much.
/// Not measured.
inline constexpr std::size_t kVictimsCompared = 64;

/// Pages of the sizes that are lacking are taken from a buffer that is needed at least such a share
/// of the way to the furthest ahead, for it costs less to make pages of another size anew than to
/// bring content twice.
/// Not measured.
inline constexpr double kVictimShareForSize = 0.25;
/// And those of all sizes but the largest of so many buffers, since it is not known which of those
/// without a next use is needed first.
/// Not measured.
inline constexpr std::size_t kVictimsForSize = 16;

/// Buffers with a slab cost less to evict. They go before others that are needed later, if they are
/// needed at least such a share of the way to the furthest ahead; over a slow link that weighs
/// less (kPinning).
/// Not measured.
inline constexpr double kVictimShareForSlab = 0.5;
/// So many bytes of host memory are pinned in a second: the slower the link beside that, the less
/// a slab counts.
/// Tuned on: slow links, where buffers that always went cost 1.1 to 1.4 times MIN's bytes in each
/// pass before the link's speed counted.
inline constexpr double kPinning = 5e9;

// ---- Pass-through memory ----

/// The shortest and the longest time between two samples of the device: the shortest when something
/// changed, then twice as long each time. Between a free and the next sample the estimate of
/// pass-through memory is too high; each sample is a driver call (docs/decisions/0006).
/// Not measured.
inline constexpr std::chrono::milliseconds kSampleShortestInterval{5};
inline constexpr std::chrono::milliseconds kSampleLongestInterval{1000};

/// The shortest and the longest time between two questions to NVML for what this process has: twice
/// as long each time as long as the guesses of samples were right.
/// Not measured: NVML takes milliseconds. Without asking, two programs that start together on one
/// device with a small budget refused a launch in 5 of 40 starts on a busy machine.
inline constexpr std::chrono::milliseconds kOwnShortestInterval{1000};
inline constexpr std::chrono::milliseconds kOwnLongestInterval{60'000};

/// The shortest time between two such questions where something goes less well without: before a
/// launch is begun without buffers that it names.
/// Not measured.
inline constexpr std::chrono::milliseconds kOwnLeastInterval{100};

/// Answers of NVML in a row that say nothing of use, after which it is not asked again.
/// Not measured: one such answer ended the asking before, which a busy neighbour could cause.
inline constexpr int kOwnMostMisses = 3;

/// Blocks of the driver by which a guess may be off and count as right: what NVML tells may be
/// rounded to other blocks.
/// Not measured.
inline constexpr std::uint64_t kGuessMostBlocksOff = 4;

/// The most that this process is taken to hold beyond what hooks counted: code, its other contexts,
/// what pools and blocks are rounded up to. A neighbour that grows meanwhile may be charged to this
/// process by as much, and a lower bound leaves code uncharged (docs/decisions/0006).
/// Not measured.
inline constexpr Bytes kMostUncounted = 1_GiB;

/// The most that counted allocations are taken to be rounded up by.
/// Not measured.
inline constexpr Bytes kMostRounding = 64_MiB;

/// The part of the budget that is kept free at most for what pools take at a time.
/// Not measured.
inline constexpr std::uint64_t kPoolPartOfBudget = 8;

/// A refusal advises to have smaller allocations moved as well where pass-through memory takes one
/// part in so many of the budget or more: with less, small allocations are not to blame.
/// Not measured.
inline constexpr std::uint64_t kLargePassthroughPart = 4;

/// Times that the device is asked again for one question where pages came or went between its
/// answers, which then do not fit together.
/// Not measured.
inline constexpr int kSampleAttempts = 3;

// ---- Host memory ----

/// The part of usable host memory that host stores leave to the program.
/// Not measured: docs/decisions/0019 gives the fifteen sixteenths that host stores take.
inline constexpr std::uint64_t kHostPartOfProgram = 16;

/// The cap of a host store rises to so much more than is needed, and falls to it.
/// Not measured: docs/decisions/0019 gives the rule.
inline constexpr Bytes kHostCapRise = 64_MiB;

/// After a look at host memory in vain, there is none for as much for so many times as long as that
/// look took.
/// Not measured: docs/decisions/0019 gives the rule.
inline constexpr int kHostLookPauseParts = 20;
/// There is none for that long at least.
/// Not measured: it is kHostLookPauseParts times the 0.1 ms that a look takes at the least.
inline constexpr std::chrono::milliseconds kHostLookLeastPause{2};

/// How long an operation tries to get the lock of the host ledger. Holders have it for
/// microseconds, and for some time slices where the machine is busy, so one that has it longer was
/// stopped.
/// Not measured: a visit of the ledger takes 4 to 5 us (docs/decisions/0019).
inline constexpr std::chrono::milliseconds kLedgerPatience{100};

/// How long the ledger is left alone after that. Reservations are admitted meanwhile.
/// Not measured: an excess is corrected within that time (docs/decisions/0019).
inline constexpr std::chrono::milliseconds kLedgerPause{1000};

/// Attempts to get that lock between which the thread only yields, and its rest between two later
/// ones.
/// Not measured.
inline constexpr int kLedgerQuickAttempts = 20;
inline constexpr std::chrono::microseconds kLedgerAttemptRest{100};

/// A process enters reservations in steps of one part in so many of the cap, so that nearly all of
/// them touch no file. Two steps of each process may be entered and not used, which should be
/// little of the cap (docs/decisions/0019).
/// Not measured.
inline constexpr std::uint64_t kLedgerStepsInCap = 1024;
/// The smallest and the largest such step.
/// Not measured.
inline constexpr Bytes kLedgerSmallestStep = 4_KiB;
inline constexpr Bytes kLedgerLargestStep = 64_MiB;

/// The latest slabs by which the host store knows which sizes are asked for again and again: of
/// those it has one in stock.
/// Tuned on: docs/decisions/0009 measured the stock with this number. At 90 % a pass of LLaMA-2-7B
/// took 1.10 times the bound in place of 1.18. Other numbers are not on record.
inline constexpr std::size_t kStockSlabsRemembered = 16;

/// With the slab that is stocked, idle slabs of those sizes take at most one part in so many of the
/// slabs in use.
/// Tuned on: as kStockSlabsRemembered. When all idle slabs counted, a pass of LLaMA-2-7B that was
/// loaded as floats took 74.2 ms at 90 %, and 65.2 since. Other parts are not on record.
inline constexpr std::uint64_t kStockPartOfUse = 4;

/// A slab with slack has one part in so many of its size, and serves sizes that are smaller by
/// that. Idle slabs are lent within the same part.
/// Tuned on: a program of 570 MiB with caches that grow, whose 48 tokens pinned 1.2 GB in place of
/// 5.3. Slabs that were lent to half their size had such caches pin 175 MB in place of 98.
inline constexpr std::uint64_t kSlabSlackPart = 8;

/// New slabs get slack where so many idle ones are too small, but not by more.
/// Not measured alone: with kSlabSlackPart, on the same program.
inline constexpr std::size_t kSlabFewestOutgrown = 8;

/// All slack in use takes at most one part in so many of the cap: what is reserved later finds so
/// much less.
/// Not measured.
inline constexpr std::uint64_t kSlackPartOfCap = 16;

/// Sizes need not be exact where more than so many times as much would be pinned as was ever
/// reserved at one time.
/// Tuned on: a busy program whose sizes never come again. It had pinned 1.5 GB after 60 rounds,
/// with 32 MiB at most in use at one time, and 244 MB since. Not less than twice, because models
/// that take turns on the device are reserved one at a time, and each should find its own slabs
/// again.
inline constexpr std::uint64_t kPinnedTimesReserved = 2;

/// How long a slab may be idle at the least before it is unpinned.
/// Follows from: pinning runs at some 5 GB/s. So a gigabyte that is unpinned in vain, and pinned
/// again, costs about a hundredth of the time for which it was idle.
inline constexpr std::chrono::nanoseconds kSlabShortestIdle = std::chrono::seconds{30};

/// How long a slab may be idle at the most, however often sizes came back late.
/// Follows from: pinning again is then too cheap beside the time between to keep the memory for it.
inline constexpr std::chrono::nanoseconds kSlabLongestIdle = std::chrono::hours{1};

/// The time between two looks at whether the device is idle, in which nothing may be submitted: a
/// driver that unpins waits for all work of its context.
/// Not measured.
inline constexpr std::chrono::seconds kUnpinLookInterval{1};

/// The stocker's shortest rest before it looks again at slabs that may be unpinned.
/// Not measured.
inline constexpr std::chrono::milliseconds kUnpinShortestRest{1};

/// After a slab was unpinned none is for so many times as long as that took: unpinning one after
/// the other held up a busy program hundreds of times in a row.
/// Not measured: unpinning takes less than a fiftieth of the time by that.
inline constexpr int kUnpinRestTimes = 50;

/// Threads that populate a slab before it is pinned.
/// Tuned on: an H200's machine, where four threads filled pages 4 times as fast as one. The driver
/// pinned fresh memory with 4.6 GB/s there, 3.5 ms for 16 MiB, while the link takes 0.3.
inline constexpr std::size_t kPopulateMostThreads = 4;

/// What a thread populates at the least. Below twice that a slab is left to the driver.
/// Not measured.
inline constexpr Bytes kPopulateLeastOfThread = 4_MiB;

// ---- Worker ----

/// How long the worker rests at first when it only has events to ask for, so that the link does not
/// stand idle; then longer each time.
/// Not measured.
inline constexpr std::chrono::microseconds kWorkerShortestRest{20};

/// How long the worker rests at most while something is pending. It could rest less, but would
/// disturb the program's own threads.
/// Not measured: it looks 5,000 times a second then.
inline constexpr std::chrono::microseconds kWorkerLongestRest{200};

/// How long it does while threads of the program wait for what is pending.
/// Tuned on: training of superpipe-layers on simgpu, which asked the driver 1.9 million times in 27
/// s in place of 4.9 million since a launch that waits leaves the worker to look by itself. Looks
/// are that often so that launches are served no later than before (docs/decisions/0025).
inline constexpr std::chrono::microseconds kWorkerLongestWhileAwaited{50};

/// How long a thread of superpipe's own is waited for at the end of the process: a program's exit
/// is not to be held up for longer.
/// Not measured.
inline constexpr std::chrono::milliseconds kThreadEndPatience{200};

/// The time between two looks at whether calls of other threads have come to their end, when the
/// manager ends.
/// Not measured.
inline constexpr std::chrono::milliseconds kEndLookInterval{1};

/// A trace is told of memory in use at most once in this time: it changes with each piece.
/// Not measured.
inline constexpr std::chrono::milliseconds kTraceMemoryInterval{1};

/// The transfers each way whose ends the worker asks for at once for a trace.
/// Not measured.
inline constexpr std::size_t kTraceMostAsked = 8;

/// The typical pass whose layers are shown is sought among so many of the last ones: what counts is
/// what there is now.
/// Not measured.
inline constexpr std::size_t kShownLatePasses = 64;

/// Shown layers are grouped again after so many passes at the soonest.
/// Not measured: a launch waits for the copy of the pass meanwhile, 10 us for 2,000 launches and 2
/// ms for the longest.
inline constexpr std::uint64_t kShownFewPasses = 8;

}  // namespace superpipe::tuning

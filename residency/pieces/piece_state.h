// The states of a piece, and which of them follows which. docs/residency.md has a picture of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace superpipe {

/// Where a piece stands, and what is under way for it. Changed by PieceStates alone.
enum class PieceState : std::uint8_t {
  kOut,           ///< The slab has its content, or it is known to be zero, or there is none yet.
  kFetching,      ///< A page is got for it, and its content is copied there.
  kArriving,      ///< Its content is on its page or on its way there; then the page is mapped.
  kIn,            ///< Its page is mapped. Its content is valid for streams behind `ready`.
  kLeaving,       ///< Device calls are under way that unmap its page and write it back.
  kDigesting,     ///< Its page is unmapped. A digest decides whether it is written back.
  kCopyStarting,  ///< Device calls are under way that unmap its page to copy it ahead of need.
  kCopying,       ///< Its page is unmapped while its content is copied to the slab ahead of need.
  kUnmapped,      ///< Its page has its newest content, and nothing is under way for it.
};
inline constexpr std::size_t kPieceStates = 9;

/// What a state means for the others.
struct PieceStateFacts {
  PieceState state;
  const char* name;  ///< as docs/residency.md and messages call it
  bool has_page;     ///< A page belongs to the piece.
  bool is_moving;  ///< Nothing uses it, and what moves it changes it: beside that, a free cancels.
  bool is_out;     ///< It can be asked for, to be brought in.
  bool is_vacating;    ///< The ledger counts its page as about to come free.
  const char* newest;  ///< which copy of its content is the newest
};

inline constexpr std::array<PieceStateFacts, kPieceStates> kPieceStateFacts{{
    // state, name, has_page, is_moving, is_out, is_vacating, newest
    {PieceState::kOut, "out", false, false, true, false, "slab, or zeros, or none"},
    {PieceState::kFetching, "fetching", false, true, false, false, "slab, or zeros, or none"},
    {PieceState::kArriving, "arriving", true, true, false, false, "slab; page once it is there"},
    {PieceState::kIn, "in", true, false, false, false, "page"},
    {PieceState::kLeaving, "leaving", true, true, false, true, "page"},
    {PieceState::kDigesting, "digesting", true, false, true, true, "page"},
    {PieceState::kCopyStarting, "copy starting", true, true, false, false, "page"},
    {PieceState::kCopying, "copying", true, false, true, false, "page"},
    {PieceState::kUnmapped, "unmapped", true, false, true, false, "page"},
}};

/// That a piece in one state may come to be in another, and by what.
struct PieceTransition {
  PieceState from;
  PieceState to;
  const char* cause;
};

inline constexpr auto kPieceTransitions = std::to_array<PieceTransition>({
    {PieceState::kOut, PieceState::kFetching, "a fetch"},
    {PieceState::kFetching, PieceState::kOut, "no page, or an error"},
    {PieceState::kFetching, PieceState::kArriving, "the copy is enqueued"},
    {PieceState::kFetching, PieceState::kIn, "mapped before its content has come"},
    {PieceState::kArriving, PieceState::kIn, "mapped"},
    {PieceState::kArriving, PieceState::kOut, "its buffer is freed, or an error"},
    {PieceState::kArriving, PieceState::kUnmapped, "it could not be mapped again"},
    {PieceState::kIn, PieceState::kLeaving, "an eviction"},
    {PieceState::kIn, PieceState::kCopyStarting, "a copy ahead of need"},
    {PieceState::kIn, PieceState::kOut, "its page is taken from a buffer that is free"},
    {PieceState::kLeaving, PieceState::kOut, "nothing to write back, or that is enqueued"},
    {PieceState::kLeaving, PieceState::kDigesting, "the digest is enqueued"},
    {PieceState::kLeaving, PieceState::kIn, "an error, and mapped again"},
    {PieceState::kLeaving, PieceState::kUnmapped, "an error, and not mapped again"},
    {PieceState::kDigesting, PieceState::kOut, "the digest found it unchanged"},
    {PieceState::kDigesting, PieceState::kLeaving, "changed, or the digest is late"},
    {PieceState::kDigesting, PieceState::kUnmapped, "wanted, or its buffer is freed"},
    {PieceState::kCopyStarting, PieceState::kCopying, "the copy is enqueued"},
    {PieceState::kCopyStarting, PieceState::kIn, "an error, and mapped again"},
    {PieceState::kCopyStarting, PieceState::kUnmapped, "an error, and not mapped again"},
    {PieceState::kCopying, PieceState::kArriving, "the copy has ended"},
    {PieceState::kCopying, PieceState::kUnmapped, "wanted, left out, or its buffer is freed"},
    {PieceState::kUnmapped, PieceState::kArriving, "a fetch"},
    {PieceState::kUnmapped, PieceState::kOut, "its buffer is freed"},
});

[[nodiscard]] constexpr const PieceStateFacts& facts_of(PieceState state) {
  return kPieceStateFacts[static_cast<std::size_t>(state)];
}

/// Whether kPieceTransitions has it.
[[nodiscard]] constexpr bool may_follow(PieceState from, PieceState to) {
  for (const PieceTransition& transition : kPieceTransitions) {
    if (transition.from == from && transition.to == to) return true;
  }
  return false;
}

}  // namespace superpipe

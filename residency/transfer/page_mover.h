// The device's calls that move a page's content in and out, in the one order that is safe.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "residency/device_memory.h"
#include "residency/host/host_store.h"
#include "residency/manager_mutex.h"
#include "residency/result.h"
#include "residency/streams/event_pool.h"
#include "residency/transfer/digester.h"
#include "residency/transfer/transfer_engine.h"

namespace superpipe {

/// Moves the content of one page, in either direction.
///
/// A kernel may use an address through a pointer that nothing of ours has seen, and waits for no
/// event of ours then. So a page is unmapped before a copy of ours reads it: what a kernel wrote
/// behind the copy would be lost. And it is mapped when the copy that fills it has ended, except
/// where the caller or the program's own work forbids to wait for that (Mapping). Before a page is
/// taken, the caller sees to it that the events of all uses have completed.
///
/// Enqueues, and waits for nothing. For the caller's thread: holds no lock, and keeps nothing from
/// one call to the next; digests are for the worker alone (Digester).
class PageMover {
 public:
  PageMover(DeviceMemory& device, EventPool& events, TransferEngine& transfers, Digester& digester)
      : device_(device), events_(events), transfers_(transfers), digester_(digester) {}

  /// A page, and where it is mapped.
  struct Place {
    Address address;  ///< the program's
    Bytes bytes;
    PageHandle handle;
    Address window;  ///< ours, under which it is always mapped
  };

  /// What a page gets.
  struct Content {
    Slab slab;                    ///< of no size: nothing is copied
    std::optional<Bytes> zeroed;  ///< up to here it reads as zero, where the slab has nothing
    std::vector<EventRef> after;  ///< what the copy waits for
    std::size_t own = 0;  ///< so many of those first are transfers, the others the program's
    bool asks = false;    ///< the device is asked first which of them are over
  };
  /// When a page is mapped that gets content.
  enum class Mapping {
    kAtOnce,     ///< when its copy has been enqueued
    kOnArrival,  ///< when its copy has ended, if that may be waited for: the caller maps it then
  };
  /// What came of it. If `status` is no kOk, the page is not mapped.
  struct Filled {
    Status status = Status::kOk;
    Transferred copy;
    bool is_mapped = false;
  };
  /// Has the page filled, and maps it now or leaves that to the caller. Content that comes behind
  /// work of the program is not waited for (I7): a launch that did so on the host could be what
  /// that work waits for.
  Filled fill(const Place& place, Content& content, Mapping mapping) EXCLUDES(manager_lock);

  /// What is to be done with the content of a page that leaves.
  struct Leave {
    Slab slab;                    ///< of no size: nothing is written back
    Bytes content;                ///< so much of the page is digested
    bool digests = false;         ///< a digest of it is computed
    bool awaits_digest = false;   ///< it is not written back if a digest is under way
    std::vector<EventRef> after;  ///< what the write-back waits for
    bool asks = false;            ///< the device is asked first which of them are over
  };
  /// What came of it.
  struct Left {
    Status status = Status::kOk;
    bool is_mapped = true;
    Transferred written;
    Digester::Enqueued digest;

    [[nodiscard]] bool has_digest() const {
      return digest.status == Status::kOk && digest.done != nullptr;
    }
  };
  /// Unmaps the page, then has it digested and copied. If that fails, the page is mapped again, if
  /// it can be (`is_mapped`), and has the content still.
  Left take(const Place& place, const Leave& leave) EXCLUDES(manager_lock);
  /// The copy of a page alone that is not mapped, behind a digest that did not come or found it
  /// changed.
  Left write_back(const Place& place, const Leave& leave) EXCLUDES(manager_lock);

  /// Maps a page that has its content.
  Status map(const Place& place) EXCLUDES(manager_lock) {
    return device_.map(place.address, place.bytes, place.handle);
  }

 private:
  Transferred copy_in(const Place& place, const Content& content);
  void write_back(const Place& place, const Leave& leave, Left& left);

  DeviceMemory& device_;
  EventPool& events_;
  TransferEngine& transfers_;
  Digester& digester_;
};

}  // namespace superpipe

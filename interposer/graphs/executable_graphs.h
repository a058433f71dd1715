// What executable graphs use when they are launched.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "interposer/driver/cuda_api.h"
#include "interposer/graphs/graph_words.h"
#include "policy/units.h"

namespace superpipe {

/// Remembers for each executable graph of a context which words of the arena its nodes name, from
/// its instantiation to its end.
///
/// A launch of it uses these buffers, as a launch of a kernel uses those that it names; between
/// launches they may leave the device. Thread-safe; calls no driver function. Where host memory is
/// out, functions throw std::bad_alloc and leave all as it was.
class ExecutableGraphs {
 public:
  /// What a launch needs to know.
  struct Launch {
    KernelId id{};  ///< under which policy and a trace know it, as if it were a kernel
    std::shared_ptr<const GraphWords::Words> words;
    Bytes takes;           ///< of device memory, for its own allocations: it has none for them yet
    bool is_known = true;  ///< false: it is not known what it uses since a change went unnoted
  };

  /// What may launch a graph.
  enum class Launcher {
    kHost,
    kDevice,  ///< device code as well, which no hook sees
  };
  /// `graph` was made of a graph of `nodes` nodes, which name `words` and allocate up to
  /// `allocates` at once.
  void instantiated(CUgraphExec graph, GraphWords words, std::size_t nodes,
                    Launcher launcher = Launcher::kHost, Bytes allocates = {});
  /// The driver has taken memory for the allocations of `graph`, which stays with it.
  void backed(CUgraphExec graph) noexcept;
  /// The driver may have given such memory of all graphs back.
  void trimmed() noexcept;
  /// That of a graph that is not known is the host.
  [[nodiscard]] Launcher launcher_of(CUgraphExec graph) const;
  /// The driver is about to change nodes of it. Nobody knows what it uses until end_change(); where
  /// that does not come before the next change, until all of its nodes are updated.
  void begin_change(CUgraphExec graph);
  /// What the driver has changed was noted, or it has changed nothing.
  void end_change(CUgraphExec graph) noexcept;
  /// One of its nodes has other parameters. What the node named before counts as well if it came by
  /// an update with another graph, whose nodes have other handles. A graph that is not known yet
  /// was made before any buffer was managed: it names none but what is told here.
  void node_changed(CUgraphExec graph, CUgraphNode node, GraphWords::Words words);
  /// One of its nodes has another graph.
  void child_changed(CUgraphExec graph, CUgraphNode node, GraphWords words);
  /// All of its nodes have the parameters of another graph's, which name `words`; if that `failed`,
  /// some may have, so that what it named before counts as well. They allocate `allocates`.
  void updated(CUgraphExec graph, GraphWords words, bool failed, Bytes allocates = {});
  /// The program has destroyed it, or is about to.
  void destroyed(CUgraphExec graph) noexcept;

  /// Null words: it names no buffer. Cost: that of sorting its words after a change, else constant.
  [[nodiscard]] Launch find(CUgraphExec graph);

  /// Says once what a user can do whose graph exceeds the budget. Any thread.
  void say_too_large() noexcept;

  /// How messages call a graph whose launches are known as `id`; nullopt if it is none's id.
  [[nodiscard]] std::optional<std::string> name_of(KernelId id) const;

 private:
  struct Executable {
    KernelId id{};
    GraphWords words;
    std::shared_ptr<const GraphWords::Words> all;  ///< of words; null: to be found anew
    Launcher launcher = Launcher::kHost;
    Bytes allocates;
    bool is_backed = false;
    bool is_changing = false;  ///< between begin_change() and end_change()
    bool is_lost = false;      ///< an earlier change has no end_change()
  };
  Executable& known(CUgraphExec graph);
  KernelId id_of(std::size_t nodes);

  std::atomic<bool> has_said_too_large_{false};
  mutable std::mutex mutex_;
  std::map<CUgraphExec, Executable> executables_;  ///< guarded by mutex_
  std::map<KernelId, std::string> names_;  ///< guarded by mutex_; one for each number of nodes
};

}  // namespace superpipe

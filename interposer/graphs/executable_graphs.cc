#include "interposer/graphs/executable_graphs.h"

#include <functional>
#include <utility>

#include "interposer/log.h"

namespace superpipe {

void ExecutableGraphs::say_too_large() noexcept {
  if (has_said_too_large_.exchange(true)) return;
  log_line(LogLevel::kWarning,
           "what a CUDA graph uses has to be on the device all at once: a program that can do "
           "without graphs needs less (JAX: XLA_FLAGS=--xla_gpu_enable_command_buffer=; "
           "torch.compile: a mode other than reduce-overhead and max-autotune)");
}

// Programs make the same graph again and again, which policy then knows by its size, as it knows a
// kernel by its name. Two of one size are like one kernel that is launched with other buffers.
// REQUIRES: mutex_ is held.
KernelId ExecutableGraphs::id_of(std::size_t nodes) {
  const std::string name =
      "<CUDA graph of " + std::to_string(nodes) + (nodes == 1 ? " node>" : " nodes>");
  const KernelId id{std::hash<std::string>{}(name)};
  names_.emplace(id, name);
  return id;
}

void ExecutableGraphs::instantiated(CUgraphExec graph, GraphWords words, std::size_t nodes,
                                    Launcher launcher, Bytes allocates) {
  const std::lock_guard lock(mutex_);
  const KernelId id = id_of(nodes);
  executables_[graph] =
      Executable{id, std::move(words), nullptr, launcher, allocates, false, false, false};
}

void ExecutableGraphs::backed(CUgraphExec graph) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = executables_.find(graph);
  if (found != executables_.end()) found->second.is_backed = true;
}

void ExecutableGraphs::trimmed() noexcept {
  const std::lock_guard lock(mutex_);
  for (auto& [graph, executable] : executables_) executable.is_backed = false;
}

ExecutableGraphs::Launcher ExecutableGraphs::launcher_of(CUgraphExec graph) const {
  const std::lock_guard lock(mutex_);
  const auto found = executables_.find(graph);
  return found == executables_.end() ? Launcher::kHost : found->second.launcher;
}

// REQUIRES: mutex_ is held.
ExecutableGraphs::Executable& ExecutableGraphs::known(CUgraphExec graph) {
  const auto found = executables_.find(graph);
  if (found != executables_.end()) return found->second;
  return executables_
      .emplace(graph, Executable{id_of(0), {}, nullptr, Launcher::kHost, {}, false, false, false})
      .first->second;
}

void ExecutableGraphs::begin_change(CUgraphExec graph) {
  const std::lock_guard lock(mutex_);
  Executable& executable = known(graph);
  executable.is_lost = executable.is_lost || executable.is_changing;
  executable.is_changing = true;
}

void ExecutableGraphs::end_change(CUgraphExec graph) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = executables_.find(graph);
  if (found != executables_.end()) found->second.is_changing = false;
}

void ExecutableGraphs::node_changed(CUgraphExec graph, CUgraphNode node, GraphWords::Words words) {
  const std::lock_guard lock(mutex_);
  Executable& executable = known(graph);
  executable.words.set(node, std::move(words));
  executable.all = nullptr;
}

void ExecutableGraphs::child_changed(CUgraphExec graph, CUgraphNode node, GraphWords words) {
  const std::lock_guard lock(mutex_);
  Executable& executable = known(graph);
  executable.words.set_child(node, std::move(words));
  executable.all = nullptr;
}

void ExecutableGraphs::updated(CUgraphExec graph, GraphWords words, bool failed, Bytes allocates) {
  const std::lock_guard lock(mutex_);
  Executable& executable = known(graph);
  if (allocates > executable.allocates) {
    executable.allocates = allocates;
    executable.is_backed = false;
  }
  if (failed) {
    executable.words.add(words.all());
  } else {
    executable.words = std::move(words);
    executable.is_lost = false;
  }
  executable.all = nullptr;
}

void ExecutableGraphs::destroyed(CUgraphExec graph) noexcept {
  const std::lock_guard lock(mutex_);
  executables_.erase(graph);
}

ExecutableGraphs::Launch ExecutableGraphs::find(CUgraphExec graph) {
  const std::lock_guard lock(mutex_);
  const auto found = executables_.find(graph);
  if (found == executables_.end()) return {};
  Executable& executable = found->second;
  if (executable.is_changing || executable.is_lost)
    return {executable.id, nullptr, {}, /*is_known=*/false};
  if (executable.all == nullptr) {
    executable.all = std::make_shared<const GraphWords::Words>(executable.words.all());
  }
  const Bytes takes = executable.is_backed ? Bytes{} : executable.allocates;
  if (executable.all->empty()) return {executable.id, nullptr, takes, true};
  return {executable.id, executable.all, takes, true};
}

std::optional<std::string> ExecutableGraphs::name_of(KernelId id) const {
  const std::lock_guard lock(mutex_);
  const auto found = names_.find(id);
  if (found == names_.end()) return std::nullopt;
  return found->second;
}

}  // namespace superpipe

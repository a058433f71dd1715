// A timeline as lines of text.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tools/superpipe/track_sink.h"

namespace superpipe::cli {

/// Writes each event of a track as a line, and checks what sinks rely on.
class LineSink final : public TrackSink {
 public:
  void begin(const TracedProcess& /*process*/) override {}
  void define(const Track& track) override { names_[track.id] = track.name; }
  void slice(const TrackEvent& event, std::uint64_t duration_ns) override {
    std::uint64_t& until = until_[event.track];
    EXPECT_GE(event.time, until) << "slices of " << names_[event.track] << " overlap";
    until = event.time + duration_ns;
    add(event, std::to_string(event.time) + "+" + std::to_string(duration_ns));
  }
  void open_slice(const TrackEvent& event) override {
    ++open_[event.track];
    add(event, std::to_string(event.time) + "(");
  }
  void close_slice(std::uint64_t track, std::uint64_t time) override {
    EXPECT_GT(open_[track]--, 0);
    lines_[names_[track]].push_back(std::to_string(time) + ")");
  }
  void instant(const TrackEvent& event) override { add(event, std::to_string(event.time)); }
  void count(std::uint64_t track, std::uint64_t time, std::uint64_t value) override {
    lines_[names_[track]].push_back(std::to_string(time) + " " + std::to_string(value));
  }
  void finish() override {
    for (const auto& entry : open_) EXPECT_EQ(entry.second, 0);
  }

  [[nodiscard]] bool has(const std::string& track) const {
    return std::any_of(names_.begin(), names_.end(),
                       [&](const auto& entry) { return entry.second == track; });
  }
  /// The last text that an event had as its argument `name`.
  [[nodiscard]] std::string argument(const std::string& name) const {
    const auto known = arguments_.find(name);
    return known == arguments_.end() ? "" : known->second;
  }

  std::vector<std::string> on(const std::string& track) { return lines_[track]; }

 private:
  void add(const TrackEvent& event, std::string line) {
    line.append(" ").append(event.name);
    for (const TrackArgument& argument : event.arguments) {
      const auto* const text = std::get_if<std::string_view>(&argument.value);
      if (text != nullptr) arguments_[std::string(argument.name)] = *text;
    }
    for (const auto flow : event.flows_out) line.append(" >").append(std::to_string(flow));
    for (const auto flow : event.flows_in) line.append(" <").append(std::to_string(flow));
    lines_[names_[event.track]].push_back(std::move(line));
  }

  std::map<std::uint64_t, std::string> names_;
  std::map<std::uint64_t, std::uint64_t> until_;
  std::map<std::uint64_t, int> open_;
  std::map<std::string, std::string> arguments_;
  std::map<std::string, std::vector<std::string>> lines_;
};

}  // namespace superpipe::cli

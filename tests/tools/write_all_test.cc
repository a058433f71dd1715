#include "tools/superpipe/write_all.h"

#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <string>
#include <thread>

namespace superpipe::cli {
namespace {

TEST(WriteAll, WritesMoreThanAPipeHolds) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  std::string text;
  for (int i = 0; text.size() < (1U << 20); ++i) text += std::to_string(i) + ' ';
  std::thread writer([&] {
    write_all(ends[1], text);
    close(ends[1]);
  });
  std::string received;
  std::array<char, 4096> buffer{};
  for (ssize_t got = 0; (got = read(ends[0], buffer.data(), buffer.size())) > 0;) {
    received.append(buffer.data(), static_cast<std::size_t>(got));
  }
  writer.join();
  close(ends[0]);
  EXPECT_EQ(received, text);
}

TEST(WriteAll, ReturnsWhenNobodyReads) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  close(ends[0]);
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  write_all(ends[1], "unheard");
  std::signal(SIGPIPE, before);
  close(ends[1]);
}

}  // namespace
}  // namespace superpipe::cli

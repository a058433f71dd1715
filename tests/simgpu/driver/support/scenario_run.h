// Runs a program with an environment, for tests of what needs a process of its own.
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

namespace simgpu_test {

struct Outcome {
  int status = -1;     ///< exit status, or -1 if killed
  std::string output;  ///< standard output and error
};

/// Runs `program` on `scenario` with `environment` ("NAME=value NAME=value") in front.
inline Outcome run_scenario(const std::string& program, const std::string& scenario,
                            const std::string& environment) {
  const std::string command = environment + " " + program + " " + scenario + " 2>&1";
  Outcome outcome;
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return outcome;
  std::array<char, 4096> buffer{};
  std::size_t length = 0;
  while ((length = fread(buffer.data(), 1, buffer.size(), pipe)) > 0) {
    outcome.output.append(buffer.data(), length);
  }
  const int status = pclose(pipe);
  if (WIFEXITED(status)) outcome.status = WEXITSTATUS(status);
  return outcome;
}

}  // namespace simgpu_test

// The exit codes of the command, as env(1) and timeout(1) use them; a started program's own code is
// its own.
#pragma once

namespace superpipe::cli {

inline constexpr int kSuccess = 0;
/// doctor: something stands in the way; budget: not done; verify: not the same; diff: worse by more
/// than is allowed
inline constexpr int kProblemFound = 1;
inline constexpr int kBadUsage =
    2;  ///< a bad flag, a file that cannot be read, or one to be written
/// verify: nothing differs, but most of the bytes that were copied out could not be compared
inline constexpr int kMostlyNotJudged = 3;
inline constexpr int kCannotRun = 125;        ///< no driver, or a part of superpipe is missing
inline constexpr int kNotExecutable = 126;    ///< the command was found but cannot be executed
inline constexpr int kCommandNotFound = 127;  ///< there is no such command

}  // namespace superpipe::cli

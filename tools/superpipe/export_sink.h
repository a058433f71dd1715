// Where the formats of `superpipe export` write to.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace superpipe::cli {

/// Takes an exported file's bytes, in their order.
class ExportSink {
 public:
  virtual ~ExportSink() = default;
  /// Appends `bytes`. Failures are kept by the sink, so that formats need not look at each write.
  virtual void write(std::string_view bytes) = 0;
};

/// A file, or standard output.
///
/// A regular file appears at its path when it is complete: until then it lies beside it, with the
/// process's id and ".part" after its name, and a signal that ends this program (SIGINT, SIGTERM,
/// SIGHUP, SIGQUIT) removes it there; of several files at once, that of the first. What is no
/// regular file (a device, a pipe) is written as it is. Not thread-safe.
class ExportFile final : public ExportSink {
 public:
  /// Opens `path`; "-" is standard output. @return the file, or a line that says what is wrong.
  [[nodiscard]] static std::unique_ptr<ExportFile> open(const std::string& path,
                                                        std::string& problem);
  ExportFile(const ExportFile&) = delete;
  ExportFile& operator=(const ExportFile&) = delete;
  /// Removes the file unless it was finished.
  ~ExportFile() override;

  void write(std::string_view bytes) override;
  /// Writes what is left, and puts the file in its place. @return nullopt, or what went wrong.
  [[nodiscard]] std::optional<std::string> finish();
  /// What went wrong so far, in a line that names the file; nullopt: nothing.
  [[nodiscard]] const std::optional<std::string>& problem() const { return problem_; }

 private:
  ExportFile(std::string path, std::string target, int file, bool is_watched);
  [[nodiscard]] bool is_part() const { return !target_.empty() && target_ != path_; }
  void flush();
  void fail(const char* what, int error);

  static constexpr std::size_t kBufferBytes = std::size_t{256} << 10;

  const std::string path_;
  const std::string target_;  ///< what is open; empty: standard output
  int file_;
  const bool is_watched_;  ///< signals that end this program remove it
  std::string buffer_;
  std::optional<std::string> problem_;
};

}  // namespace superpipe::cli

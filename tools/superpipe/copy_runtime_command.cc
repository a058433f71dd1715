#include "tools/superpipe/copy_runtime_command.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <system_error>
#include <vector>

#include "tools/superpipe/exit_code.h"
#include "tools/superpipe/installation.h"

namespace superpipe::cli {
namespace {

namespace fs = std::filesystem;

// A folder that has it was made by this command.
constexpr const char* kMark = "superpipe-runtime";

int fail_copy(const std::string& line, int code) {
  std::cerr << "superpipe copy-runtime: " << line << '\n';
  return code;
}

std::string text_of_errno() { return std::strerror(errno); }

/// What lies where the copy shall be.
enum class Place { kFree, kFormerCopy, kTaken };

Place look_at(const fs::path& target) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(target, error);
  if (status.type() == fs::file_type::not_found) return Place::kFree;
  if (status.type() != fs::file_type::directory) return Place::kTaken;
  if (fs::exists(target / kMark, error)) return Place::kFormerCopy;
  return fs::is_empty(target, error) && !error ? Place::kFree : Place::kTaken;
}

/// A file of this installation, and where it goes in the copy.
struct Part {
  fs::path from;
  fs::path to;
};

/// Adds what lies in `folder` of `prefix`: files, and links to what lies beside them. Throws
/// fs::filesystem_error.
void add_files(const fs::path& prefix, const fs::path& folder, std::vector<Part>& parts) {
  std::error_code none;
  if (!fs::is_directory(prefix / folder, none)) return;
  for (const fs::directory_entry& entry : fs::directory_iterator(prefix / folder)) {
    if (entry.is_symlink() || entry.is_regular_file()) {
      parts.push_back({entry.path(), folder / entry.path().filename()});
    }
  }
}

/// All that the copy has. Throws fs::filesystem_error.
std::vector<Part> parts_of(const fs::path& prefix, bool with_simgpu) {
  const fs::path lib = fs::path("lib") / "superpipe";
  const fs::path doc = fs::path("share") / "doc" / "superpipe";
  std::vector<Part> parts{{prefix / "bin" / "superpipe", fs::path("bin") / "superpipe"}};
  add_files(prefix, lib, parts);
  add_files(prefix, lib / "unwind", parts);
  if (with_simgpu) {
    add_files(prefix, lib / "simgpu", parts);
    parts.push_back(
        {prefix / "bin" / "superpipe.simgpu.so", fs::path("bin") / "superpipe.simgpu.so"});
  }
  add_files(prefix, doc, parts);
  add_files(prefix, doc / "licenses", parts);
  return parts;
}

/// Closes folders and files to other users, but for reading. Throws fs::filesystem_error.
void set_permissions(const fs::path& path, bool is_program) {
  fs::permissions(path, static_cast<fs::perms>(is_program ? 0755 : 0644));
}

/// Copies `parts` into `fresh`, a new folder. Throws fs::filesystem_error.
void copy_parts(const std::vector<Part>& parts, const fs::path& fresh) {
  for (const Part& part : parts) {
    const fs::path to = fresh / part.to;
    fs::create_directories(to.parent_path());
    if (fs::is_symlink(part.from)) {
      const fs::path aim = fs::read_symlink(part.from);
      // One that leads elsewhere would lead nowhere from the copy.
      if (!aim.has_parent_path()) {
        fs::create_symlink(aim, to);
        continue;
      }
    }
    fs::copy_file(part.from, to);
    const bool is_program =
        (fs::status(part.from).permissions() & fs::perms::owner_exec) != fs::perms::none;
    set_permissions(to, is_program);
  }
  std::ofstream mark(fresh / kMark);
  mark << "superpipe " SUPERPIPE_VERSION ", by superpipe copy-runtime, which may replace it\n";
  mark.close();
  if (!mark) {
    throw fs::filesystem_error("cannot write", fresh / kMark,
                               std::error_code(errno, std::generic_category()));
  }
  set_permissions(fresh / kMark, false);
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(fresh)) {
    if (entry.is_directory() && !entry.is_symlink()) set_permissions(entry.path(), true);
  }
  set_permissions(fresh, true);
}

/// Puts `fresh` in the place of `target`, and what was there at `fresh`. @return whether it did;
/// else errno says why not.
bool take_place(const fs::path& fresh, const fs::path& target) {
  if (::rename(fresh.c_str(), target.c_str()) == 0) return true;  // there was none, or an empty one
  if (errno != ENOTEMPTY && errno != EEXIST) return false;
  if (::renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) {
    if (look_at(fresh) != Place::kTaken) return true;
    // Another program has put something there meanwhile, which may not go.
    (void)::renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE);
    errno = EEXIST;
    return false;
  }
  if (errno != EINVAL && errno != ENOSYS) return false;
  const fs::path former = fresh.string() + "-former";
  if (::rename(target.c_str(), former.c_str()) != 0) return false;
  const bool has_place = ::rename(fresh.c_str(), target.c_str()) == 0;
  const int error = errno;
  (void)::rename(former.c_str(), has_place ? fresh.c_str() : target.c_str());
  errno = error;
  return has_place;
}

/// A new folder in `folder` with a name of its own, removed with all that it then holds.
class FreshFolder {
 public:
  explicit FreshFolder(const fs::path& folder) : path_(folder / ".superpipe-XXXXXX") {
    is_made_ = ::mkdtemp(path_.data()) != nullptr;
  }
  ~FreshFolder() {
    std::error_code ignored;
    if (!is_made_) return;
    fs::remove_all(path_, ignored);
    if (!ignored) return;
    std::cerr << "superpipe copy-runtime: note: " << path_ << " cannot be removed ("
              << ignored.message() << "); it is no longer used\n";
  }
  FreshFolder(const FreshFolder&) = delete;
  FreshFolder& operator=(const FreshFolder&) = delete;

  [[nodiscard]] bool is_made() const { return is_made_; }
  [[nodiscard]] fs::path path() const { return path_; }

 private:
  std::string path_;
  bool is_made_;
};

/// Whether other users may put something else in the place of what lies in `folder`.
bool is_open_to_others(const std::string& folder) {
  struct stat status {};
  return ::stat(folder.c_str(), &status) == 0 && (status.st_mode & (S_IWGRP | S_IWOTH)) != 0 &&
         (status.st_mode & S_ISVTX) == 0;
}

void say_copied(const std::string& folder, const std::string& prefix) {
  const std::string library = installation_in(prefix).preload_library;
  std::cout << "superpipe " SUPERPIPE_VERSION " lies in " << prefix
            << " now. A program that finds it under the same path runs under it\n"
               "  with "
            << prefix
            << "/bin/superpipe run -- in front of its command, or\n"
               "  with the variables of: superpipe env --runtime "
            << folder
            << " --format sh|json|docker|k8s\n"
               "  (LD_PRELOAD="
            << library << " is one of them).\n"
            << std::flush;
}

}  // namespace

std::string runtime_prefix(const std::string& folder) {
  return (fs::path(folder) / "superpipe").string();
}

std::optional<std::string> problem_with(const CopyRuntimeOptions& options) {
  if (options.folder.empty()) return "no folder; name the one to copy into";
  if (!loader_can_name(fs::absolute(options.folder).string())) {
    return "'" + options.folder +
           "': LD_PRELOAD cannot name what lies in a folder with a space, a colon or a semicolon";
  }
  return std::nullopt;
}

int copy_runtime_command(const CopyRuntimeOptions& options) {
  const fs::path folder = fs::absolute(options.folder).lexically_normal();
  const fs::path target = runtime_prefix(folder.string());
  const Installation own = this_installation();
  for (const std::string& part :
       {own.preload_library, options.simulate ? own.simgpu_driver : own.preload_library}) {
    if (!is_readable_file(part)) {
      return fail_copy("a part of superpipe is missing: " + part + "; install it again",
                       kCannotRun);
    }
  }
  if (::mkdir(folder.c_str(), 0755) == 0) {
    (void)::chmod(folder.c_str(), 0755);  // whatever the umask: other users' programs look into it
  } else if (errno != EEXIST) {
    return fail_copy("cannot make the folder " + folder.string() + ": " + text_of_errno(),
                     kBadUsage);
  }
  if (look_at(target) == Place::kTaken) {
    return fail_copy(target.string() +
                         " is there, and no copy that superpipe copy-runtime made; "
                         "name another folder, or remove it",
                     kBadUsage);
  }
  const FreshFolder fresh(folder);
  if (!fresh.is_made()) {
    return fail_copy("cannot write into " + folder.string() + ": " + text_of_errno(), kBadUsage);
  }
  try {
    const fs::path prefix = fs::path(own.preload_library).parent_path().parent_path().parent_path();
    copy_parts(parts_of(prefix, options.simulate), fresh.path());
  } catch (const fs::filesystem_error& error) {
    return fail_copy("cannot copy to " + folder.string() + ": " + error.code().message() + " (" +
                         error.path1().string() + ")",
                     kBadUsage);
  }
  if (!take_place(fresh.path(), target)) {
    const bool is_of_an_image = errno == EXDEV;
    return fail_copy(
        "cannot put the copy at " + target.string() + ": " + text_of_errno() +
            (is_of_an_image ? "; a layer of the image has the former one: remove that first" : ""),
        kBadUsage);
  }
  if (is_open_to_others(folder.string())) {
    std::cerr << "superpipe copy-runtime: note: others may write into " << folder.string()
              << ", and so replace what your programs load; close it, or set its sticky bit\n";
  }
  say_copied(folder.string(), target.string());
  return kSuccess;
}

}  // namespace superpipe::cli

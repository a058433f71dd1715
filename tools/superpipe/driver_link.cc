#include "tools/superpipe/driver_link.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <filesystem>
#include <system_error>

namespace superpipe::cli {
namespace {

constexpr mode_t kOwnOnly = 0700;

/// Whether `path` is now a folder that only this user can look into. A link is none.
bool make_private_folder(const std::string& path) {
  if (::mkdir(path.c_str(), kOwnOnly) != 0 && errno != EEXIST) return false;
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
         status.st_uid == ::geteuid() && (status.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

/// Whether others cannot put something else in the place of this user's folders in `folder`. Its
/// owner can, whatever its mode.
bool keeps_owners(const std::string& folder) {
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0) return false;
  if (status.st_uid != 0 && status.st_uid != ::geteuid()) return false;
  return (status.st_mode & (S_IWGRP | S_IWOTH)) == 0 || (status.st_mode & S_ISVTX) != 0;
}

std::string target_of(const std::string& link) {
  std::string target(PATH_MAX, '\0');
  const ssize_t length = ::readlink(link.c_str(), target.data(), target.size());
  target.resize(length < 0 ? 0 : static_cast<std::size_t>(length));
  return target;
}

/// Whether `link` leads to `target` now. Another process may be making the same.
bool make_link(const std::string& target, const std::string& link) {
  if (target_of(link) == target) return true;
  const std::string fresh = link + '.' + std::to_string(::getpid());
  ::unlink(fresh.c_str());
  const bool is_made = ::symlink(target.c_str(), fresh.c_str()) == 0;
  if (is_made && ::rename(fresh.c_str(), link.c_str()) == 0) return true;
  if (is_made) ::unlink(fresh.c_str());
  // A process of another container may have this one's number, and have made it meanwhile.
  return target_of(link) == target;
}

/// What no other file or folder has as its name: links of several installations lie side by side.
/// `kind` is one for what is a folder there and one for what is a link: a file that is gone leaves
/// its number to a folder.
std::string name_for(const std::string& path, const std::string& kind) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return {};
  return kind + std::to_string(status.st_dev) + '-' + std::to_string(status.st_ino);
}

/// This user's place in `shared` for what leads to `path`; empty if it cannot be kept from others,
/// or has one of `separators` in its path.
std::string place_for(const std::string& path, const std::string& kind, const std::string& shared,
                      const char* separators) {
  std::error_code none;
  const std::string base = std::filesystem::absolute(shared, none).string();
  const std::string name = name_for(path, kind);
  if (none || name.empty() || !keeps_owners(base)) return {};
  const std::string own = base + "/superpipe-links-" + std::to_string(::geteuid());
  if (own.find_first_of(separators) != std::string::npos) return {};
  return make_private_folder(own) ? own + '/' + name : std::string();
}

}  // namespace

std::string folder_with_driver_link(const std::string& library, const std::string& shared) {
  // LD_LIBRARY_PATH alone has to name it.
  const std::string folder = place_for(library, "driver-", shared, ":;");
  if (folder.empty() || !make_private_folder(folder)) return {};
  return make_link(library, folder + "/libcuda.so") ? folder : std::string();
}

std::optional<Installation> parts_to_be_named(const Installation& parts,
                                              const std::string& shared) {
  if (loader_can_name(parts.prefix)) return parts;
  const std::string link = place_for(parts.prefix, "prefix-", shared, ": ;");
  if (link.empty() || !make_link(parts.prefix, link)) return std::nullopt;
  return installation_in(link);
}

}  // namespace superpipe::cli

#include "profiler/shared_folder.h"

#include <dirent.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <system_error>

namespace superpipe {

std::string shared_folder(const Environment& environment) {
  return read_variables(environment).text(SettingId::kSharedFolder);
}

std::string problem_with_shared_folder(const std::string& folder, FolderUse use) {
  if (folder.empty() || folder.front() != '/') {
    return folder +
           ": it is no absolute path, and each process would look below its own working folder";
  }
  int error = 0;
  if (use == FolderUse::kLook) {
    DIR* const stream = ::opendir(folder.c_str());
    if (stream == nullptr) error = errno;
    if (stream != nullptr) ::closedir(stream);
  } else {
    // No faccessat(): containers' filters of system calls refuse it where they do not know it.
    struct stat status {};
    if (::stat(folder.c_str(), &status) != 0) {
      error = errno;
    } else if (!S_ISDIR(status.st_mode)) {
      error = ENOTDIR;
    }
  }
  return error == 0 ? std::string() : folder + ": " + std::generic_category().message(error);
}

std::string advice_on_shared_folder() {
  return std::string("; set ") + variable_of(SettingId::kSharedFolder) +
         " to a folder with room that all your processes may write";
}

std::string advice_on_shared_file(int error) {
  switch (error) {
    case EACCES:
    case EDQUOT:
    case EEXIST:
    case EINVAL:
    case EIO:
    case ENAMETOOLONG:
    case ENODEV:
    case ENOENT:
    case ENOSPC:
    case ENOTDIR:
    case EOPNOTSUPP:
    case EPERM:
    case EROFS:
    case ESTALE:
      return advice_on_shared_folder();
    case EFBIG:
      return "; allow the process larger files (ulimit -f)";
    default:
      return "";
  }
}

int problem_with_file_size(Bytes size) {
  rlimit limit{};
  const bool is_too_large = ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < size.count();
  return is_too_large ? EFBIG : 0;
}

}  // namespace superpipe

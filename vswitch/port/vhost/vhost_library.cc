#include "vswitch/port/vhost/vhost_library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <string>

#include "absl/strings/str_cat.h"

namespace eoib {
namespace {

constexpr char kName[] = "libeoib-vhost.so";

// Beside the program: in a build tree, and where the package puts it.
absl::StatusOr<std::string> FindLibrary() {
  std::array<char, PATH_MAX> program;
  const ssize_t length = readlink("/proc/self/exe", program.data(), program.size());
  const std::string path(program.data(), length < 0 ? 0 : static_cast<size_t>(length));
  const std::string root = absl::StrCat(path.substr(0, path.rfind('/') + 1), "../");
  for (const char* directory : {"lib/", EOIB_PRIVATE_LIBRARIES "/"}) {
    const std::string candidate = absl::StrCat(root, directory, kName);
    if (access(candidate.c_str(), R_OK) == 0) return candidate;
  }
  return absl::UnavailableError(
      absl::StrCat("type = \"vhost-user\" needs ", kName, ", which is not beside ", path,
                   "; install the package eoib-vhost, or the package libdpdk-dev and build again"));
}

}  // namespace

absl::Status CheckVhostLibrary() { return FindLibrary().status(); }

absl::StatusOr<VhostBackend*> LoadVhostLibrary() {
  static VhostBackend* loaded = nullptr;
  if (loaded != nullptr) return loaded;
  const absl::StatusOr<std::string> path = FindLibrary();
  if (!path.ok()) return path.status();
  void* const library = dlopen(path->c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return absl::UnavailableError(absl::StrCat("load the vhost-user library: ", dlerror()));
  const auto function =
      reinterpret_cast<VhostBackendFunction>(dlsym(library, kVhostBackendFunction));
  if (function == nullptr) {
    return absl::UnavailableError(absl::StrCat(
        "load ", *path, ": it is of another version; install the one of this program"));
  }
  std::string error;
  loaded = function(&error);
  if (loaded == nullptr)
    return absl::UnavailableError(
        absl::StrCat("start the vhost-user library ", *path, ": ", error));
  return loaded;
}

}  // namespace eoib

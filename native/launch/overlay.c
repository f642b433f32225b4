/* The sandbox's root: see overlay.h. */
#include "launch/overlay.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "launch/overlay_fuse.h"

/* The kernel takes one page of mount options; 500 lowers named `l/123` need 3,000 bytes. */
enum { OPTIONS_BYTES_MAX = 4096 };

static int overlay_options(const struct request *request, char *options, const char *extra) {
  int used = snprintf(options, OPTIONS_BYTES_MAX, "%supperdir=u/data,workdir=u/work,lowerdir=", extra);
  for (size_t i = 0; i < request->lower_count && used < OPTIONS_BYTES_MAX; i++) {
    used += snprintf(options + used, (size_t)(OPTIONS_BYTES_MAX - used), "%sl/%zu", i == 0 ? "" : ":", i);
  }
  return used < OPTIONS_BYTES_MAX ? 0 : -1;
}

int overlay_mount(const struct launcher *launcher, const struct starter_plan *plan, const struct request *request,
                  struct fault *fault) {
  char options[OPTIONS_BYTES_MAX];
  errno = E2BIG;
  if (overlay_options(request, options, launcher->overlays_by_fuse ? "" : "userxattr,") != 0) {
    return fault_set(fault, "launch_failed", "%zu layers do not fit", request->lower_count);
  }
  if (launcher->overlays_by_fuse) return overlay_mount_fuse(launcher, plan, options, fault);
  if (mount("overlay", "root", "overlay", MS_NODEV | MS_NOSUID, options) == 0) return 0;
  return fault_disk(fault, "launch_failed", "can't mount the overlay of upper \"%s\"", request->upper);
}

static int prepare_directory(int root, const char *name, mode_t mode, struct fault *fault) {
  struct stat status;
  if (fstatat(root, name, &status, AT_SYMLINK_NOFOLLOW) == 0) {
    if (S_ISDIR(status.st_mode) && (mode == 0755 || (status.st_mode & 07777) == mode)) return 0;
    if (S_ISDIR(status.st_mode)) {
      if (fchmodat(root, name, mode, 0) == 0) return 0;
      return fault_disk(fault, "launch_failed", "can't make /%s writable for all", name);
    }
    if (unlinkat(root, name, 0) != 0) return fault_disk(fault, "launch_failed", "can't replace /%s", name);
  }
  if (mkdirat(root, name, 0755) == 0 && (mode == 0755 || fchmodat(root, name, mode, 0) == 0)) return 0;
  return fault_disk(fault, "launch_failed", "can't make /%s", name);
}

static int prepare_file(int directory, const char *name, struct fault *fault) {
  struct stat status;
  if (fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) == 0) {
    if (S_ISREG(status.st_mode)) return 0;
    if (unlinkat(directory, name, S_ISDIR(status.st_mode) ? AT_REMOVEDIR : 0) != 0) {
      return fault_disk(fault, "launch_failed", "can't replace /etc/%s", name);
    }
  }
  cleanup_fd fd = openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  return fd >= 0 ? 0 : fault_disk(fault, "launch_failed", "can't make /etc/%s", name);
}

int overlay_prepare_root(int root, struct fault *fault) {
  if (prepare_directory(root, "proc", 0755, fault) != 0 || prepare_directory(root, "dev", 0755, fault) != 0 ||
      prepare_directory(root, "etc", 0755, fault) != 0 || prepare_directory(root, "tmp", 01777, fault) != 0) {
    return -1;
  }
  cleanup_fd etc = openat(root, "etc", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (etc < 0) return fault_set(fault, "launch_failed", "can't open /etc");
  return prepare_file(etc, "hosts", fault) != 0 || prepare_file(etc, "resolv.conf", fault) != 0 ? -1 : 0;
}

/* Uppers: see upper.h. */
#include "launch/upper.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/file.h"
#include "launch/helper.h"

static bool is_directory(int parent, const char *name) {
  struct stat status;
  if (fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(status.st_mode)) return true;
  errno = ENOTDIR;
  return false;
}

bool upper_is_whole(int upper) { return is_directory(upper, "data") && is_directory(upper, "work"); }

/* `data` and `work` for the sandbox's root. Directories that exist are kept: a create that was cut short is
   completed by the next one. */
static int make_parts(const struct launcher *launcher, int upper, struct fault *fault) {
  static const struct {
    const char *name;
    mode_t mode;
  } parts[] = {{"data", 0755}, {"work", 0700}};
  unsigned owner = sandbox_root_id(launcher);
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
    if (mkdirat(upper, parts[i].name, parts[i].mode) == 0) {
      if (fchmodat(upper, parts[i].name, parts[i].mode, 0) == 0 &&
          fchownat(upper, parts[i].name, owner, owner, AT_SYMLINK_NOFOLLOW) == 0) {
        continue;
      }
    } else if (errno == EEXIST && is_directory(upper, parts[i].name)) {
      continue;
    }
    return fault_disk(fault, "launch_failed", "can't make the upper's \"%s\"", parts[i].name);
  }
  if (fchown(upper, owner, owner) == 0) return 0; /* The overlay is mounted by that id: it has to pass here. */
  return fault_disk(fault, "launch_failed", "can't give the upper to the sandbox");
}

static int open_directory(const struct launcher *launcher, const char *path, struct fault *fault) {
  if (make_directories(launcher->data_fd, path, false) != 0) {
    return fault_disk(fault, "launch_failed", "can't make upper \"%s\"", path);
  }
  int fd = open_beneath(launcher->data_fd, path, O_RDONLY | O_DIRECTORY);
  return fd >= 0 ? fd : fault_set(fault, "launch_failed", "can't open upper \"%s\"", path);
}

static bool is_tmpfs(int upper, int data_fd) {
  struct stat here;
  struct stat data;
  struct statfs status;
  return fstat(upper, &here) == 0 && fstat(data_fd, &data) == 0 && here.st_dev != data.st_dev &&
         fstatfs(upper, &status) == 0 && status.f_type == TMPFS_MAGIC;
}

/* Mounts the tmpfs where it is not mounted yet; the working directory is not used, so workers may call this. */
static int make_tmpfs(const struct launcher *launcher, const char *path, const struct tree_usage *max,
                      struct fault *fault) {
  cleanup_fd upper = open_directory(launcher, path, fault);
  if (upper < 0) return -1;
  if (!is_tmpfs(upper, launcher->data_fd)) {
    char options[128];
    snprintf(options, sizeof options, "mode=700,size=%llu,nr_inodes=%llu", (unsigned long long)max->bytes,
             (unsigned long long)max->inodes);
    if (mount("upper", fd_path(upper, "").text, "tmpfs", MS_NOSUID | MS_NODEV, options) != 0) {
      return fault_set(fault, "launch_failed", "can't mount a tmpfs for upper \"%s\"", path);
    }
    close_fd(&upper);
    upper = open_directory(launcher, path, fault);
    if (upper < 0) return -1;
  }
  return make_parts(launcher, upper, fault);
}

static int make_directory(const struct launcher *launcher, const struct request *request, struct fault *fault) {
  cleanup_fd upper = open_directory(launcher, request->upper, fault);
  if (upper < 0 || make_parts(launcher, upper, fault) != 0) return -1;
  if (request->upper_kind != UPPER_PROJECT) return 0;
  return helper_set_project(launcher->helper_fd, request, fault);
}

static int create(const struct launcher *launcher, const struct request *request, struct fault *fault) {
  struct tree_usage max = {.bytes = request->bytes_max, .inodes = request->inodes_max};
  switch (request->upper_kind) {
    case UPPER_TMPFS: return make_tmpfs(launcher, request->upper, &max, fault);
    case UPPER_IMAGE:
      if (make_directories(launcher->data_fd, request->upper, true) != 0) {
        return fault_disk(fault, "launch_failed", "can't make the parent of upper \"%s\"", request->upper);
      }
      return helper_create_image(launcher->helper_fd, request, fault);
    case UPPER_DIRECTORY:
    case UPPER_PROJECT: return make_directory(launcher, request, fault);
  }
  return -1;
}

int upper_create(const struct launcher *launcher, const struct request *request, struct fault *fault) {
  if (create(launcher, request, fault) != 0) return -1;
  if (!request->is_reserved || syncfs(launcher->data_fd) == 0) return 0;
  return fault_disk(fault, "launch_failed", "can't sync volume \"%s\"", request->upper);
}

int upper_mount_again(const struct launcher *launcher, const char *path, struct fault *fault) {
  const struct image_use use = {
      .upper = path, .sandbox_root = sandbox_root_id(launcher), .share = launcher->image_share};
  return helper_attach_image(launcher->helper_fd, &use, fault);
}

int upper_attach(const struct launcher *launcher, const struct request *request, int *mount_fd, struct fault *fault) {
  struct tree_usage max = {.bytes = request->bytes_max, .inodes = request->inodes_max};
  *mount_fd = -1;
  switch (request->upper_kind) {
    case UPPER_TMPFS: return make_tmpfs(launcher, request->upper, &max, fault);
    case UPPER_IMAGE:
      *mount_fd = upper_mount_again(launcher, request->upper, fault);
      return *mount_fd < 0 ? -1 : 0;
    case UPPER_DIRECTORY:
    case UPPER_PROJECT: return 0;
  }
  return -1;
}

int upper_open(const struct launcher *launcher, const struct request *request, struct fault *fault) {
  if (request->upper_kind == UPPER_IMAGE) {
    for (struct sandbox *at = launcher->sandboxes; at != NULL; at = at->next) {
      if (strcmp(at->upper, request->upper) == 0 && at->upper_mount_fd >= 0) return dup(at->upper_mount_fd);
    }
    return upper_mount_again(launcher, request->upper, fault);
  }
  int upper = open_beneath(launcher->data_fd, request->upper, O_RDONLY | O_DIRECTORY);
  return upper >= 0 ? upper : fault_set(fault, "launch_failed", "can't open upper \"%s\"", request->upper);
}

enum { SPARE_FILES = 16, SPARE_FILE_BYTES = 4096 };

static bool has_room(int upper) {
  struct statfs status;
  if (fstatfs(upper, &status) != 0 || status.f_bsize <= 0) return false;
  return status.f_ffree >= SPARE_FILES && status.f_bavail * (uint64_t)status.f_bsize >= SPARE_FILES * SPARE_FILE_BYTES;
}

void upper_spare_release(int upper, enum upper_kind kind) {
  char name[32];
  /* Nearly every start has the room without, and is spared sixty-odd system calls. The figure is the upper's own where it
     has a file system of its own; a project shares the host's. */
  if (kind != UPPER_PROJECT && has_room(upper)) return;
  /* From the last on: while that is there, all are. */
  for (int i = SPARE_FILES - 1; i >= 0; i--) {
    snprintf(name, sizeof name, "spare.%d", i);
    (void)unlinkat(upper, name, 0);
  }
}

void upper_spare_take(int upper) {
  static const char filling[SPARE_FILE_BYTES] = {1};
  char name[32];
  snprintf(name, sizeof name, "spare.%d", SPARE_FILES - 1);
  if (faccessat(upper, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0) return;
  for (int i = 0; i < SPARE_FILES; i++) {
    snprintf(name, sizeof name, "spare.%d", i);
    cleanup_fd file = openat(upper, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0 && errno == EEXIST) continue; /* A start that was killed took only some away. */
    /* Taken without being written where the file system can. What does not fit now was needed now; the next start does
       with less. */
    if (file < 0) return;
    if (fallocate(file, 0, 0, sizeof filling) == 0) continue;
    if (errno == EOPNOTSUPP && write(file, filling, sizeof filling) == (ssize_t)sizeof filling) continue;
    (void)unlinkat(upper, name, 0);
    return;
  }
}

void upper_spare_give(int upper, uid_t owner) {
  char name[32];
  struct stat status;
  /* Each by itself: a start or a gift that was cut short leaves some of either kind. */
  for (int i = 0; i < SPARE_FILES; i++) {
    snprintf(name, sizeof name, "spare.%d", i);
    if (fstatat(upper, name, &status, AT_SYMLINK_NOFOLLOW) != 0 || status.st_uid != 0) continue;
    (void)fchownat(upper, name, owner, owner, AT_SYMLINK_NOFOLLOW);
  }
}

int upper_measure(int upper, const struct tree_usage *max, struct tree_usage *usage, struct fault *fault) {
  struct tree_usage mounts = {0};
  cleanup_fd data = openat(upper, "data", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (data < 0) return fault_set(fault, "internal", "the upper has no data directory");
  if (tree_measure(data, max, usage, fault) != 0) return -1;
  cleanup_fd own = openat(upper, "mounts", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (own < 0) return 0;
  if (tree_measure(own, max, &mounts, fault) != 0) return -1;
  usage->bytes += mounts.bytes;
  usage->lengths += mounts.lengths;
  usage->inodes += mounts.inodes;
  usage->missed += mounts.missed;
  return 0;
}

int upper_usage(const struct launcher *launcher, const struct request *request, struct tree_usage *usage,
                struct fault *fault) {
  cleanup_fd upper = upper_open(launcher, request, fault);
  if (upper < 0) return -1;
  if (request->upper_kind == UPPER_IMAGE || request->upper_kind == UPPER_TMPFS) {
    struct statfs status;
    if (fstatfs(upper, &status) != 0) return fault_set(fault, "internal", "can't measure an upper");
    *usage = (struct tree_usage){.bytes = (status.f_blocks - status.f_bfree) * (uint64_t)status.f_frsize,
                                 .inodes = status.f_files - status.f_ffree};
    return 0;
  }
  struct tree_usage none = {0};
  /* A directory that moves while the walk is below it ends the walk; a living tree may do that now and then. */
  for (int tries = 3; tries > 1; tries--) {
    if (upper_measure(upper, &none, usage, fault) == 0) return 0;
  }
  return upper_measure(upper, &none, usage, fault);
}

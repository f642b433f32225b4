/* Volumes and directories of the host: see mounts.h. */
#include "launch/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "common/descriptor.h"
#include "common/file.h"
#include "common/mount_points.h"
#include "launch/helper.h"
#include "launch/hidden_names.h"
#include "launch/ids.h"
#include "common/syscalls.h"

/* A directory that exists on every host; what lies below it in a namespace of our own concerns nobody. */
#define WORK "/tmp"

static int clone_tree(int directory) {
  return sys_open_tree(directory, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
}

bool mounts_are_identical(int directory, const char *identity) {
  struct stat status;
  char text[48];
  if (fstat(directory, &status) != 0) return false;
  snprintf(text, sizeof text, "%llu:%llu", (unsigned long long)status.st_dev, (unsigned long long)status.st_ino);
  return strcmp(text, identity) == 0;
}

static int take_host(const struct mount_wish *wish, struct fault *fault) {
  cleanup_fd root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
  cleanup_fd directory = root < 0 ? -1 : open_beneath(root, wish->source, O_PATH | O_DIRECTORY);
  if (directory < 0) {
    return fault_set(fault, "host_directory_refused", "can't open \"/%s\" of the host", wish->source);
  }
  errno = 0;
  if (!mounts_are_identical(directory, wish->identity)) {
    return fault_set(fault, "host_directory_refused", "\"/%s\" is another directory than a moment ago", wish->source);
  }
  int tree = clone_tree(directory);
  if (tree >= 0) return tree;
  /* A single mount of a tree with others on it would show what they cover. */
  bool has_others = errno == EINVAL;
  errno = has_others ? 0 : errno;
  return fault_set(fault, "host_directory_refused", "can't attach \"/%s\" of the host%s", wish->source,
                   has_others ? ": something else is mounted below it" : "");
}

static int take_directory(const struct launcher *launcher, const struct mount_wish *wish, struct fault *fault) {
  char data[REQUEST_PATH_BYTES_MAX + 8];
  snprintf(data, sizeof data, "%s/data", wish->source);
  cleanup_fd directory = open_beneath(launcher->data_fd, data, O_PATH | O_DIRECTORY);
  int tree = directory < 0 ? -1 : clone_tree(directory);
  return tree >= 0 ? tree : fault_disk(fault, "launch_failed", "can't attach volume \"%s\"", wish->source);
}

/* `data` of the image's mount. Only what is attached can be cloned, so it gets a place where nobody else looks. */
static int data_of(int image) {
  if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
      sys_move_mount(image, AT_FDCWD, WORK) != 0) {
    return -1;
  }
  cleanup_fd data = open(WORK "/data", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  return data < 0 ? -1 : clone_tree(data);
}

static int take_image(const struct launcher *launcher, const struct mount_wish *wish, unsigned root_id,
                      struct fault *fault) {
  const struct image_use image = {
      .upper = wish->source, .sandbox_root = sandbox_root_id(launcher), .share = UINT64_MAX, .is_reserved = true};
  int mounts[2] = {-1, -1};
  if (ids_begin_own_range(ids_on_host(root_id))) {
    const struct tree_use use = {.image = &image, .sandbox_root = root_id};
    if (helper_map_trees(launcher->helper_fd, &use, mounts, fault) != 0) return -1;
    close_fd(&mounts[0]);
  } else {
    mounts[1] = helper_attach_image(launcher->helper_fd, &image, fault);
  }
  cleanup_fd mount = mounts[1];
  if (mount < 0) return -1;
  int tree = data_of(mount);
  return tree >= 0 ? tree : fault_set(fault, "launch_failed", "can't attach volume \"%s\"", wish->source);
}

int mounts_map(const struct launcher *launcher, const struct mount_wish *wish, unsigned root_id, int tree,
               struct fault *fault) {
  const struct tree_use use = {.sandbox_root = root_id, .trees = &tree, .tree_count = 1};
  if (!ids_begin_own_range(ids_on_host(root_id))) return 0;
  if (helper_map_trees(launcher->helper_fd, &use, NULL, fault) == 0) return 0;
  bool is_hosts = wish->is_host || wish->place != PLACE_NONE;
  if (!is_hosts || wish->is_writable) return -1;
  *fault = (struct fault){0};
  return 0;
}

int mounts_take(const struct launcher *launcher, const struct mount_wish *wish, unsigned root_id, struct fault *fault) {
  bool is_image = !wish->is_host && wish->kind == UPPER_IMAGE;
  cleanup_fd tree = wish->is_host ? take_host(wish, fault)
                    : is_image    ? take_image(launcher, wish, root_id, fault)
                                  : take_directory(launcher, wish, fault);
  if (tree < 0 || (!is_image && mounts_map(launcher, wish, root_id, tree, fault) != 0)) return -1;
  struct mount_attr attributes = {.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (wish->is_writable ? 0 : MOUNT_ATTR_RDONLY),
                                  .propagation = MS_PRIVATE};
  if (sys_mount_setattr(tree, AT_EMPTY_PATH, &attributes) != 0) {
    return fault_set(fault, "launch_failed", "can't set the flags of mount \"/%s\"", wish->target);
  }
  return wish->hidden_count > 0 ? hidden_names_cover(tree, wish, fault) : take_fd(&tree);
}

enum { PLAIN, HIDES_NAMES, IS_IMAGE, TURNS };

/* An image's leaves something else at WORK, where a directory of the host may lie. */
static int turn_of(const struct mount_wish *wish) {
  if (!wish->is_host && wish->kind == UPPER_IMAGE) return IS_IMAGE;
  return wish->hidden_count > 0 ? HIDES_NAMES : PLAIN;
}

int mounts_take_all(const struct launcher *launcher, const struct request *request, unsigned root_id,
                    int mounts[MOUNTS_MAX], struct fault *fault) {
  for (int turn = 0; turn < TURNS; turn++) {
    for (size_t i = 0; i < request->mount_count; i++) {
      const struct mount_wish *wish = &request->mounts[i];
      if (wish->place != PLACE_NONE || turn_of(wish) != turn) continue;
      mounts[i] = mounts_take(launcher, wish, root_id, fault);
      if (mounts[i] < 0) return -1;
    }
  }
  return 0;
}

int mounts_open_target(int root, const char *target, struct fault *fault) {
  int at = mount_point_open(root, target);
  if (at >= 0) return at;
  return fault_disk(fault, "mount_refused", "\"/%s\" in the sandbox is no directory, or a link is on the way", target);
}

int mounts_open_file(int root, const char *target, struct fault *fault) {
  char parent[REQUEST_PATH_BYTES_MAX + 1];
  struct stat status;
  const char *slash = strrchr(target, '/');
  const char *name = slash == NULL ? target : slash + 1;
  snprintf(parent, sizeof parent, "%.*s", slash == NULL ? 0 : (int)(slash - target), target);
  cleanup_fd directory = mounts_open_target(root, parent, fault);
  if (directory < 0) return -1;
  if (mknodat(directory, name, S_IFREG | 0444, 0) != 0 && errno != EEXIST) return fault_disk(fault, "mount_refused", "can't make \"/%s\" in the sandbox", target);
  cleanup_fd file = open_beneath(directory, name, O_PATH);
  if (file >= 0 && fstat(file, &status) == 0 && S_ISREG(status.st_mode)) return take_fd(&file);
  return fault_set(fault, "mount_refused", "\"/%s\" in the sandbox is no regular file, or a link is on the way", target);
}

int mounts_place(int tree, int target, const struct mount_wish *wish, struct fault *fault) {
  if (sys_move_mount_onto(tree, target) == 0) return 0;
  return fault_set(fault, "mount_refused", "can't attach \"/%s\" in the sandbox", wish->target);
}

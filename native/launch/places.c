/* The host's file system through rules: see places.h. */
#include "launch/places.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/file.h"
#include "common/syscalls.h"
#include "launch/mounts.h"
#include "tree/tree.h"

int places_lay_ground(struct fault *fault) {
  cleanup_fd data = open("u/data", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  cleanup_fd tree = data < 0 ? -1 : sys_open_tree(data, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
  struct mount_attr attributes = {.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, .propagation = MS_PRIVATE};
  if (tree >= 0 && sys_mount_setattr(tree, AT_EMPTY_PATH, &attributes) == 0 && sys_move_mount(tree, AT_FDCWD, "root") == 0) return 0;
  return fault_set(fault, "launch_failed", "can't attach the box's own files");
}

static int fail(const struct mount_wish *wish, const char *what, struct fault *fault) {
  return fault_set(fault, "host_path_refused", "\"/%s\": %s", wish->target, what);
}

/* Where places are put, and where the sandbox's own part of them lies. */
struct ground {
  int root;
  int data;
  const char *work; /* relative to the working directory */
  struct supply *supply;
};

/* Of a place, below `data`. */
static const char *own_path(const struct mount_wish *wish) { return wish->own == NULL ? wish->target : wish->own; }

/*
 * One part below an open directory of the own part, made where it is missing, for whom the directory belongs to. A link or a file that
 * the box has put there instead is not followed and fails.
 */
static int step(int at, const char *part) {
  struct stat status;
  int next = open_beneath(at, part, O_PATH | O_DIRECTORY);
  if (next >= 0 || errno != ENOENT) return next;
  if (fstat(at, &status) != 0 || mkdirat(at, part, 0755) != 0) return -1;
  (void)fchownat(at, part, status.st_uid, status.st_gid, AT_SYMLINK_NOFOLLOW);
  return open_beneath(at, part, O_PATH | O_DIRECTORY);
}

/* The directory of `data` that `path` names, or the one that its last part is in. */
static int make_own(int data, const char *path, bool for_parent) {
  char part[NAME_MAX + 1];
  cleanup_fd at = open_beneath(data, ".", O_PATH | O_DIRECTORY);
  while (at >= 0) {
    size_t bytes = strcspn(path, "/");
    if (path[bytes] == '\0' && for_parent) return take_fd(&at);
    snprintf(part, sizeof part, "%.*s", (int)bytes, path);
    int next = step(at, part);
    int number = errno;
    close_fd(&at);
    errno = number;
    at = next;
    if (path[bytes] == '\0') return take_fd(&at);
    path += bytes + 1;
  }
  return -1;
}

static const char *last_part(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash == NULL ? path : slash + 1;
}

/* Where a tree is attached. What is missing is made in the own part and nowhere else. */
static int open_point(const struct ground *ground, const struct mount_wish *wish, bool is_directory, struct fault *fault) {
  int flags = O_PATH | (is_directory ? O_DIRECTORY : 0);
  const char *path = own_path(wish);
  cleanup_fd point = open_beneath(ground->root, wish->target, flags);
  if (point < 0 && errno == ENOENT) {
    cleanup_fd own = make_own(ground->data, path, !is_directory);
    if (own >= 0 && !is_directory) (void)mknodat(own, last_part(path), S_IFREG | 0644, 0);
    point = open_beneath(ground->root, wish->target, flags);
  }
  if (point < 0) return fail(wish, "there is nothing to attach it to, or a link is on the way", fault);
  return take_fd(&point);
}

static int attach(const struct ground *ground, int tree, const struct mount_wish *wish, struct fault *fault) {
  struct stat status;
  if (fstat(tree, &status) != 0) return fail(wish, "it can't be looked at", fault);
  cleanup_fd point = open_point(ground, wish, S_ISDIR(status.st_mode), fault);
  if (point < 0) return -1;
  if (sys_move_mount_onto(tree, point) == 0) return 0;
  return fail(wish, "it can't be attached in the sandbox", fault);
}

/* As the host's directory looks, as far as its owner is anybody in here. */
static void copy_looks(int from, int to) {
  struct stat status;
  struct stat own;
  if (fstat(from, &status) != 0 || fstat(to, &own) != 0) return;
  const struct timespec times[2] = {status.st_atim, status.st_mtim};
  const char *path = fd_path(to, "").text;
  /* Nobody's stays with the box's root: it has to make names in it. */
  if (status.st_uid != 65534) (void)chown(path, status.st_uid, status.st_gid);
  (void)chmod(path, status.st_mode & 0777);
  (void)utimensat(AT_FDCWD, path, times, 0);
}

/* Something that is shown in its place: a whiteout, or one of what it lies in. A directory would be merged with the host's. */
static int check_covered(int at, const char *part) {
  struct stat status;
  return fstatat(at, part, &status, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(status.st_mode) ? 0 : -1;
}

/*
 * One name that the overlay shall not show, in a layer of its own between the host's and what the box writes: there no program inside takes
 * it away again, by removing what it has put over it. Where a directory on the way is missing on the host, that is the name: whatever comes
 * there later is not shown either.
 */
static int hide(int lower, int layer, const char *rest) {
  char part[NAME_MAX + 1];
  cleanup_fd below = open_beneath(lower, ".", O_PATH | O_DIRECTORY);
  cleanup_fd at = open_beneath(layer, ".", O_PATH | O_DIRECTORY);
  while (below >= 0 && at >= 0) {
    size_t bytes = strcspn(rest, "/");
    snprintf(part, sizeof part, "%.*s", (int)bytes, rest);
    cleanup_fd next_below = rest[bytes] == '\0' ? -1 : open_beneath(below, part, O_PATH | O_DIRECTORY);
    if (next_below < 0) return mknodat(at, part, S_IFCHR, 0) == 0 ? 0 : check_covered(at, part);
    bool is_new = mkdirat(at, part, 0755) == 0;
    int next = open_beneath(at, part, O_PATH | O_DIRECTORY);
    if (next < 0) return check_covered(at, part);
    if (is_new) copy_looks(next_below, next);
    close_fd(&at);
    close_fd(&below);
    at = next;
    below = take_fd(&next_below);
    rest += bytes + 1;
  }
  return -1;
}

static bool is_below(const char *path, const char *directory) {
  size_t bytes = strlen(directory);
  return strncmp(path, directory, bytes) == 0 && path[bytes] == '/';
}

/* Those of the request that this overlay does not show, in a directory `layer`, which is made where there is one. */
static int hide_all(const struct supply *supply, size_t index, const char *layer, struct fault *fault) {
  const struct request *request = &supply->request;
  const struct mount_wish *wish = &request->mounts[index];
  cleanup_fd made = -1;
  for (size_t i = 0; i < index; i++) {
    const struct mount_wish *hidden = &request->mounts[i];
    if (hidden->place != PLACE_WHITEOUT || !is_below(hidden->target, wish->target)) continue;
    if (made < 0 && mkdir(layer, 0755) == 0) made = open(layer, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (made < 0 || hide(supply->mounts[index], made, hidden->target + strlen(wish->target) + 1) != 0) return fail(hidden, "it can't be hidden", fault);
  }
  return made >= 0;
}

/* For places_close: what is put later may lie over it. */
static int keep_open(const struct ground *ground, size_t index, struct fault *fault) {
  const struct mount_wish *wish = &ground->supply->request.mounts[index];
  int *kept = &ground->supply->mounts[index];
  close_fd(kept);
  if (wish->is_writable) return 0;
  *kept = open_beneath(ground->root, wish->target, O_PATH | O_DIRECTORY);
  return *kept >= 0 ? 0 : fail(wish, "it can't be opened", fault);
}

static int put_overlay(const struct ground *ground, size_t index, struct fault *fault) {
  const struct supply *supply = ground->supply;
  const struct mount_wish *wish = &supply->request.mounts[index];
  const char *path = own_path(wish);
  char hides[32];
  char lower[32];
  char work[32];
  char options[256];
  snprintf(hides, sizeof hides, "l/hides%zu", index);
  snprintf(lower, sizeof lower, "l/place%zu", index);
  snprintf(work, sizeof work, "%s/%zu", ground->work, index);
  cleanup_fd parent = make_own(ground->data, path, true);
  bool is_new = parent >= 0 && mkdirat(parent, last_part(path), 0755) == 0;
  cleanup_fd upper = parent < 0 ? -1 : open_beneath(parent, last_part(path), O_PATH | O_DIRECTORY);
  if (upper < 0) return fail(wish, "the box's own files leave no room for its changes: a link or a file is on the way", fault);
  if (is_new) copy_looks(supply->mounts[index], upper);
  int has_hidden = hide_all(supply, index, hides, fault);
  if (has_hidden < 0) return -1;
  if (mkdir(lower, 0755) != 0 || sys_move_mount(supply->mounts[index], AT_FDCWD, lower) != 0 ||
      (mkdir(work, 0700) != 0 && errno != EEXIST)) {
    return fail(wish, "what lies below its changes can't be attached", fault);
  }
  cleanup_fd point = open_point(ground, wish, true, fault);
  if (point < 0) return -1;
  snprintf(options, sizeof options, "userxattr,index=off,upperdir=%s,workdir=%s,lowerdir=%s%s%s", fd_path(upper, "").text, work,
           has_hidden ? hides : "", has_hidden ? ":" : "", lower);
  if (mount("overlay", fd_path(point, "").text, "overlay", MS_NODEV | MS_NOSUID, options) == 0) return keep_open(ground, index, fault);
  return fail(wish, "the kernel refuses copy-on-write there (another file system may be mounted below it)", fault);
}

static int put_private(const struct ground *ground, const struct mount_wish *wish, struct fault *fault) {
  const struct request *request = &ground->supply->request;
  struct stat own_status;
  struct stat seen_status;
  bool is_users = wish->own == NULL && strcmp(wish->identity, "user") == 0;
  const char *path = own_path(wish);
  cleanup_fd parent = make_own(ground->data, path, true);
  const char *name = last_part(path);
  if (parent >= 0 && mkdirat(parent, name, is_users ? 0700 : 0755) == 0 && is_users) {
    (void)fchownat(parent, name, request->user, request->group, AT_SYMLINK_NOFOLLOW);
  }
  cleanup_fd own = parent < 0 ? -1 : open_beneath(parent, name, O_PATH | O_DIRECTORY);
  if (own < 0 || fstat(own, &own_status) != 0) return fail(wish, "the box's own files leave no room for it: a link or a file is on the way", fault);
  cleanup_fd seen = open_point(ground, wish, true, fault);
  if (seen < 0) return -1;
  bool is_shown = fstat(seen, &seen_status) == 0 && seen_status.st_ino == own_status.st_ino && seen_status.st_dev == own_status.st_dev;
  if (is_shown) return 0;
  cleanup_fd tree = sys_open_tree(own, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
  struct mount_attr attributes = {.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, .propagation = MS_PRIVATE};
  if (tree < 0 || sys_mount_setattr(tree, AT_EMPTY_PATH, &attributes) != 0) return fail(wish, "its own directory can't be attached", fault);
  return attach(ground, tree, wish, fault);
}

/* One link is left as it is where the box has made something else of it. */
static int put_link(int data, const struct mount_wish *wish, struct fault *fault) {
  char text[REQUEST_PATH_BYTES_MAX + 2];
  cleanup_fd parent = make_own(data, wish->target, true);
  snprintf(text, sizeof text, "/%s", wish->source);
  if (parent >= 0 && (symlinkat(text, parent, last_part(wish->target)) == 0 || errno == EEXIST)) return 0;
  return fail(wish, "the link can't be made", fault);
}

static int put_closed(int root, const struct mount_wish *wish, struct fault *fault) {
  struct stat status;
  cleanup_fd point = open_beneath(root, wish->target, O_PATH);
  if (point < 0 && errno == ENOENT) return 0; /* It went meanwhile, and what is not there is not read. */
  if (point < 0 || fstat(point, &status) != 0) return fail(wish, "it can't be covered: a link is on the way", fault);
  const char *cover = S_ISDIR(status.st_mode) ? "covers/closed" : "covers/unread";
  if (mount(cover, fd_path(point, "").text, NULL, MS_BIND, NULL) == 0) return 0;
  return fail(wish, "it can't be covered", fault);
}

static int put(const struct ground *ground, size_t index, struct fault *fault) {
  struct supply *supply = ground->supply;
  const struct mount_wish *wish = &supply->request.mounts[index];
  switch (wish->place) {
    case PLACE_BIND:
    case PLACE_SOCKET:
    case PLACE_FILE: return attach(ground, supply->mounts[index], wish, fault);
    case PLACE_OVERLAY: return put_overlay(ground, index, fault);
    case PLACE_PRIVATE: return put_private(ground, wish, fault);
    case PLACE_DENY: return put_closed(ground->root, wish, fault);
    case PLACE_LINK: return put_link(ground->data, wish, fault);
    case PLACE_DEVICE:   /* The box's /dev is not there yet. */
    case PLACE_WHITEOUT: /* Its overlay makes it. */
    case PLACE_NONE: return 0;
  }
  return -1;
}

int places_put(int root, struct supply *supply, struct fault *fault) {
  cleanup_fd data = open("u/data", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (data < 0) return fault_set(fault, "launch_failed", "can't open the box's own files");
  const struct ground ground = {.root = root, .data = data, .work = "u/work", .supply = supply};
  for (size_t i = 0; i < supply->request.mount_count; i++) {
    if (supply->request.mounts[i].place == PLACE_NONE || supply->request.mounts[i].place == PLACE_DEVICE) continue;
    if (put(&ground, i, fault) != 0) return -1;
    if (supply->request.mounts[i].place != PLACE_OVERLAY) close_fd(&supply->mounts[i]);
  }
  return 0;
}

static bool is_had(const struct request *request, const char *name) {
  size_t bytes = strlen(name);
  for (size_t i = 0; i < request->mount_count; i++) {
    const char *own = request->mounts[i].own;
    if (own != NULL && strncmp(own, name, bytes) == 0 && (own[bytes] == '/' || own[bytes] == '\0')) return true;
  }
  return false;
}

void places_drop_left(const struct request *request) {
  static const char *const parts[] = {"data", "trash"}; /* The latter is tree_remove's, who may have been ended. */
  char path[NAME_MAX + 8];
  cleanup_fd mounts = open("u/mounts", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  for (size_t i = 0; mounts >= 0 && i < sizeof parts / sizeof parts[0]; i++) {
    int part = openat(mounts, parts[i], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *entries = part < 0 ? NULL : fdopendir(part);
    for (struct dirent *entry; entries != NULL && (entry = readdir(entries)) != NULL;) {
      struct fault fault = {0}; /* It is tried again at the next start; meanwhile it takes room. */
      if (entry->d_name[0] == '.' || is_had(request, entry->d_name)) continue;
      snprintf(path, sizeof path, "%s/%s", parts[i], entry->d_name);
      (void)tree_remove(mounts, path, &fault);
    }
    if (entries != NULL) closedir(entries);
  }
}

/* Beside `data` and `work` of the root's overlay, not in them: two overlays have nothing in common. */
static int make_mounts(void) {
  static const char *const made[] = {"u/mounts", "u/mounts/data", "u/mounts/work"};
  for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) {
    if (mkdir(made[i], 0755) != 0 && errno != EEXIST) return -1;
  }
  return open("u/mounts/data", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int places_put_in_layers(int root, struct supply *supply, size_t index, struct fault *fault) {
  const struct mount_wish *wish = &supply->request.mounts[index];
  if (wish->place == PLACE_WHITEOUT) return 0;
  cleanup_fd data = make_mounts();
  if (data < 0) return fault_disk(fault, "launch_failed", "can't open the sandbox's own files of \"/%s\"", wish->target);
  /* The directory itself, and not what lies in it. */
  if (strchr(wish->own, '/') == NULL) {
    cleanup_fd target = mounts_open_target(root, wish->target, fault);
    if (target < 0) return -1;
  }
  const struct ground ground = {.root = root, .data = data, .work = "u/mounts/work", .supply = supply};
  int result = put(&ground, index, fault);
  if (wish->place != PLACE_OVERLAY) close_fd(&supply->mounts[index]);
  return result;
}

static int put_device(int directory, int tree, const struct mount_wish *wish, struct fault *fault) {
  const char *name = wish->target + sizeof DEVICES - 1;
  cleanup_fd parent = make_own(directory, name, true);
  if (parent < 0 || mknodat(parent, last_part(name), S_IFREG, 0) != 0) return fail(wish, "the box has something of its own there", fault);
  cleanup_fd point = openat(parent, last_part(name), O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (point >= 0 && sys_move_mount_onto(tree, point) == 0) return 0;
  return fail(wish, "the device can't be attached in the box", fault);
}

int places_put_devices(const char *path, struct supply *supply, struct fault *fault) {
  const unsigned long flags = MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NOEXEC;
  cleanup_fd directory = -1;
  for (size_t i = 0; i < supply->request.mount_count; i++) {
    if (supply->request.mounts[i].place != PLACE_DEVICE) continue;
    if (directory < 0) {
      if (mount(NULL, path, NULL, flags, NULL) != 0) return fault_set(fault, "launch_failed", "can't open /dev for the box's devices");
      directory = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    }
    if (put_device(directory, supply->mounts[i], &supply->request.mounts[i], fault) != 0) return -1;
    close_fd(&supply->mounts[i]);
  }
  if (directory < 0 || mount(NULL, path, NULL, flags | MS_RDONLY, NULL) == 0) return 0;
  return fault_set(fault, "launch_failed", "can't make /dev read-only");
}

int places_close(struct supply *supply, struct fault *fault) {
  struct mount_attr attributes = {.attr_set = MOUNT_ATTR_RDONLY};
  for (size_t i = 0; i < supply->request.mount_count; i++) {
    const struct mount_wish *wish = &supply->request.mounts[i];
    if (wish->place != PLACE_OVERLAY || wish->is_writable) continue;
    if (sys_mount_setattr(supply->mounts[i], AT_EMPTY_PATH, &attributes) != 0) return fail(wish, "it can't be made read-only", fault);
    close_fd(&supply->mounts[i]);
  }
  return 0;
}

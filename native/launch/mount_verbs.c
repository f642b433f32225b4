/* Mounts of sandboxes that run: see mount_verbs.h. */
#include "launch/mount_verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "launch/become.h"
#include "common/file.h"
#include "launch/mounts.h"
#include "launch/sandbox.h"
#include "common/syscalls.h"

/* As root of the sandbox: what has to be made is made as its own. Returns its root directory. */
static int enter(const struct launcher *launcher, const struct request *request, struct fault *fault) {
  if (setns(request->member, CLONE_NEWUSER) != 0 || setns(request->member, CLONE_NEWNS) != 0) {
    return fault_set(fault, "sandbox_not_ready", "can't enter sandbox \"%s\"", request->name);
  }
  if (!launcher->is_single && become_inner_root(fault) != 0) return -1;
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* We hold more than the sandbox's root does. */
  umask(022);
  int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
  return root >= 0 ? root : fault_set(fault, "sandbox_not_ready", "can't open the root of sandbox \"%s\"", request->name);
}

/* Nobody inside makes mounts, so they are all ours. */
static bool is_mount(int directory) {
  struct statx whole;
  return syscall(SYS_statx, directory, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &whole) == 0 &&
         (whole.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

static bool is_same(int directory, int tree) {
  struct stat here;
  struct stat there;
  return fstat(directory, &here) == 0 && fstat(tree, &there) == 0 && here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

static const struct sandbox *find(const struct launcher *launcher, const struct request *request, struct fault *fault) {
  errno = 0;
  for (const struct sandbox *at = launcher->sandboxes; at != NULL && request->member >= 0; at = at->next) {
    if (strcmp(at->name, request->name) == 0) return at;
  }
  fault_set(fault, "sandbox_not_ready", "sandbox \"%s\" does not run", request->name);
  return NULL;
}

struct mount_line {
  unsigned long long id;
  char device[32];
  char root[4096];
};

/* `id parent device root …` of /proc/PID/mountinfo. */
static bool read_line(const char *text, struct mount_line *line) {
  return sscanf(text, "%llu %*u %31s %4095s", &line->id, line->device, line->root) == 3;
}

/*
 * Whether the sandbox has the mounted directory at another place, too. A program inside can rename the directories above a mount: then
 * nothing is where it was attached, and a second mount would stay behind when the first one is detached.
 */
static bool is_elsewhere(int proc, int mounted) {
  static char text[65536];
  struct statx found;
  struct mount_line own = {0};
  struct mount_line other;
  ssize_t length = text_file_read(proc, "self/mountinfo", text, sizeof text);
  if (length < 0 || (size_t)length == sizeof text - 1) return true;
  if (syscall(SYS_statx, mounted, "", AT_EMPTY_PATH, STATX_MNT_ID, &found) != 0) return true;
  for (const char *at = text; at != NULL && own.id == 0; at = strchr(at, '\n')) {
    at += *at == '\n';
    if (read_line(at, &other) && other.id == found.stx_mnt_id) own = other;
  }
  for (const char *at = text; at != NULL; at = strchr(at, '\n')) {
    at += *at == '\n';
    if (read_line(at, &other) && other.id != own.id && strcmp(other.device, own.device) == 0 && strcmp(other.root, own.root) == 0) return true;
  }
  return own.id == 0;
}

int mount_attach(const struct launcher *launcher, const struct request *request, struct fault *fault) {
  const struct mount_wish *wish = &request->mounts[0];
  const struct sandbox *sandbox = find(launcher, request, fault);
  cleanup_fd proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC); /* Ours: in the sandbox's we would have no number. */
  cleanup_fd tree = sandbox == NULL ? -1 : mounts_take(launcher, wish, sandbox->root_id, fault);
  cleanup_fd root = tree < 0 ? -1 : enter(launcher, request, fault);
  cleanup_fd target = root < 0 ? -1 : mounts_open_target(root, wish->target, fault);
  if (target < 0) return -1;
  if (is_mount(target) && is_same(target, tree)) return 0;
  if (mounts_place(tree, target, wish, fault) != 0) return -1;
  if (!is_elsewhere(proc, tree)) return 0;
  if (fchdir(tree) == 0) (void)umount2(".", MNT_DETACH);
  errno = 0;
  return fault_set(fault, "mount_exists", "what \"/%s\" is to show is attached at another place of the sandbox", wish->target);
}

/* A directory of the host may be gone by now, or have got another name. */
static bool shows(int target, const struct mount_wish *wish, int tree) {
  if (!is_mount(target)) return false;
  return wish->is_host ? mounts_are_identical(target, wish->identity) : is_same(target, tree);
}

int mount_detach(const struct launcher *launcher, const struct request *request, struct fault *fault) {
  const struct mount_wish *wish = &request->mounts[0];
  const char *name = NULL;
  const struct sandbox *sandbox = find(launcher, request, fault);
  if (sandbox == NULL) return -1;
  cleanup_fd tree = wish->is_host ? -1 : mounts_take(launcher, wish, sandbox->root_id, fault);
  if (!wish->is_host && tree < 0) return -1;
  cleanup_fd root = enter(launcher, request, fault);
  if (root < 0) return -1;
  cleanup_fd parent = open_parent(root, wish->target, &name);
  cleanup_fd target = parent < 0 ? -1 : open_beneath(parent, name, O_PATH | O_DIRECTORY);
  errno = 0;
  if (target < 0 || !shows(target, wish, tree)) {
    return fault_set(fault, "mount_busy", "\"/%s\" is not where it was attached: it goes when the sandbox stops", wish->target);
  }
  close_fd(&target);
  /* A program inside can't put another mount there meanwhile; what it can is rename directories, and then the name is none. */
  if (fchdir(parent) == 0 && umount2(name, UMOUNT_NOFOLLOW) == 0) return 0;
  bool is_busy = errno == EBUSY;
  return fault_set(fault, is_busy ? "mount_busy" : "mount_refused", "can't detach \"/%s\"", wish->target);
}

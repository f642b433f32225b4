/* Tries an overlay: see overlay_probe.h. A child does it, in a mount namespace that goes with it. */
#include "launch/overlay_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "launch/become.h"
#include "common/clock.h"
#include "common/file.h"
#include "launch/helper.h"
#include "launch/ids.h"
#include "common/syscalls.h"
#include "tree/tree.h"

struct verdict {
  int number; /* errno, 0 where it works */
  char step[48];
};

static int fail(struct verdict *verdict, const char *step) {
  verdict->number = errno != 0 ? errno : EOPNOTSUPP; /* What the helper refuses is no error of a call here. */
  snprintf(verdict->step, sizeof verdict->step, "%s", step);
  return -1;
}

/* What the child needs of what its ids can't reach. */
struct trial {
  bool on_tmpfs;
  int namespace; /* of the range's ids, or -1 */
  int trees[2]; /* lower and upper in them */
};

static int enter_range(struct verdict *verdict, const struct trial *trial) {
  if (trial->namespace < 0) return 0;
  if (setns(trial->namespace, CLONE_NEWUSER) == 0 && become_inner_root(&(struct fault){0}) == 0) return 0;
  return fail(verdict, "user namespace");
}

static int attach(struct verdict *verdict, const struct trial *trial) {
  if (trial->namespace < 0) return 0;
  if (sys_move_mount(trial->trees[0], AT_FDCWD, "l") == 0 && sys_move_mount(trial->trees[1], AT_FDCWD, "u") == 0) return 0;
  return fail(verdict, "attaching");
}

/* Mounts, then removes a lower file: that makes a whiteout, the part old kernels refuse. */
static int try_overlay(struct verdict *verdict, const struct trial *trial) {
  if (enter_range(verdict, trial) != 0) return -1;
  if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) {
    return fail(verdict, "mount namespace");
  }
  if (attach(verdict, trial) != 0) return -1;
  if (trial->on_tmpfs && mount("probe", "u", "tmpfs", 0, "size=64k") != 0) return fail(verdict, "tmpfs");
  if (chdir("/proc/self/cwd") != 0 || mkdir("u/data", 0755) != 0 || mkdir("u/work", 0755) != 0) {
    return fail(verdict, "directories");
  }
  if (mount("overlay", "root", "overlay", 0, "userxattr,lowerdir=l,upperdir=u/data,workdir=u/work") != 0) {
    return fail(verdict, "mounting");
  }
  if (unlink("root/gone") != 0) return fail(verdict, "whiteouts");
  if (mkdir("root/directory", 0755) != 0 || rmdir("root/directory") != 0) return fail(verdict, "directories");
  return 0;
}

static int prepare(const struct launcher *launcher, const char *path) {
  static const char *const parts[] = {"l", "u", "root", "l/gone"};
  unsigned owner = sandbox_root_id(launcher);
  if (make_directories(launcher->data_fd, path, false) != 0) return -1;
  cleanup_fd directory = open_beneath(launcher->data_fd, path, O_RDONLY | O_DIRECTORY);
  if (directory < 0 || fchmod(directory, 0755) != 0) return -1;
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
    mode_t kind = i < 3 ? S_IFDIR : S_IFREG;
    if ((kind == S_IFDIR ? mkdirat(directory, parts[i], 0755) : mknodat(directory, parts[i], kind | 0644, 0)) != 0 ||
        fchownat(directory, parts[i], owner, owner, AT_SYMLINK_NOFOLLOW) != 0) {
      return -1;
    }
  }
  return take_fd(&directory);
}

static int map_trees(const struct launcher *launcher, int directory, unsigned root_id, struct trial *trial) {
  static const char *const names[] = {"l", "u"};
  char map[32];
  const struct tree_use use = {NULL, root_id, trial->trees, 2};
  for (size_t i = 0; i < 2; i++) {
    trial->trees[i] = sys_open_tree(directory, names[i], OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (trial->trees[i] < 0) return -1;
  }
  snprintf(map, sizeof map, "0 %u %u\n", root_id, SANDBOX_IDS);
  trial->namespace = ids_namespace(map);
  return trial->namespace < 0 ? -1 : helper_map_trees(launcher->helper_fd, &use, NULL, &(struct fault){0});
}

/* A full disk says nothing about the kernel, which has overlays nearly everywhere: nobody changes to the weaker kind for it. */
static bool is_no_room(int number) { return number == ENOSPC || number == EDQUOT; }

static struct verdict judge(int directory, const struct trial *trial) {
  int ends[2];
  struct verdict verdict = {.number = EIO, .step = "a child"};
  if (pipe2(ends, O_CLOEXEC) != 0) return verdict;
  pid_t child = fork();
  if (child == 0) {
    struct verdict found = {0};
    if (fchdir(directory) != 0) fail(&found, "directory");
    else try_overlay(&found, trial);
    _exit(write_whole(ends[1], &found, sizeof found) == 0 ? 0 : 1);
  }
  close(ends[1]);
  if (child > 0) (void)read_whole(ends[0], &verdict, sizeof verdict);
  close(ends[0]);
  while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR) continue;
  return verdict;
}

bool overlay_probe(const struct launcher *launcher, struct overlay_trial wanted, char *why, size_t size) {
  char path[64];
  struct verdict verdict = {0};
  struct trial trial = {wanted.on_tmpfs, -1, {-1, -1}};
  snprintf(path, sizeof path, "tmp/probe-%d-%lld", getpid(), (long long)now_us());
  cleanup_fd directory = prepare(launcher, path);
  if (directory < 0) fail(&verdict, "no room to try");
  else if (wanted.root_id != 0 && map_trees(launcher, directory, wanted.root_id, &trial) != 0) fail(&verdict, "mounting with a map of ids");
  else verdict = judge(directory, &trial);
  close_fd(&trial.namespace);
  for (size_t i = 0; i < 2; i++) close_fd(&trial.trees[i]);
  (void)tree_remove(launcher->data_fd, path, &(struct fault){0});
  snprintf(why, size, "%s: %s", verdict.step, strerror(verdict.number));
  errno = verdict.number;
  return verdict.number == 0 || (wanted.root_id == 0 && is_no_room(verdict.number));
}

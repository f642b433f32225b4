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
#include "launch/clock.h"
#include "launch/file.h"
#include "launch/tree.h"

struct verdict {
  int number; /* errno, 0 where it works */
  char step[32];
};

static int fail(struct verdict *verdict, const char *step) {
  verdict->number = errno;
  snprintf(verdict->step, sizeof verdict->step, "%s", step);
  return -1;
}

/* Mounts, then removes a lower file: that makes a whiteout, the part old kernels refuse. */
static int try_overlay(struct verdict *verdict, bool on_tmpfs) {
  if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) {
    return fail(verdict, "mount namespace");
  }
  if (on_tmpfs && mount("probe", "u", "tmpfs", 0, "size=64k") != 0) return fail(verdict, "tmpfs");
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
  static const char *const parts[] = {"l", "u", "root"};
  if (make_directories(launcher->data_fd, path, false) != 0) return -1;
  cleanup_fd directory = open_beneath(launcher->data_fd, path, O_RDONLY | O_DIRECTORY);
  if (directory < 0) return -1;
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
    if (mkdirat(directory, parts[i], 0755) != 0) return -1;
  }
  cleanup_fd gone = openat(directory, "l/gone", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  return gone < 0 ? -1 : take_fd(&directory);
}

/* A full disk says nothing about the kernel, which has overlays nearly everywhere: nobody changes to the weaker kind for it. */
static bool is_no_room(int number) { return number == ENOSPC || number == EDQUOT; }

bool overlay_probe(const struct launcher *launcher, bool on_tmpfs, char *why, size_t size) {
  char path[64];
  int ends[2];
  struct verdict verdict = {.number = EIO, .step = "a child"};
  snprintf(path, sizeof path, "tmp/probe-%d-%lld", getpid(), (long long)now_us());
  cleanup_fd directory = prepare(launcher, path);
  if (directory < 0 || pipe2(ends, O_CLOEXEC) != 0) {
    bool is_full = is_no_room(errno);
    snprintf(why, size, "no room to try: %s", strerror(errno));
    (void)tree_remove(launcher->data_fd, path, &(struct fault){0});
    return is_full;
  }
  pid_t child = fork();
  if (child == 0) {
    struct verdict found = {0};
    if (fchdir(directory) != 0) fail(&found, "directory");
    else try_overlay(&found, on_tmpfs);
    _exit(write_whole(ends[1], &found, sizeof found) == 0 ? 0 : 1);
  }
  close(ends[1]);
  if (child > 0) (void)read_whole(ends[0], &verdict, sizeof verdict);
  close(ends[0]);
  while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR) continue;
  (void)tree_remove(launcher->data_fd, path, &(struct fault){0});
  snprintf(why, size, "%s: %s", verdict.step, strerror(verdict.number));
  return verdict.number == 0 || is_no_room(verdict.number);
}

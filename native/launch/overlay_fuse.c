/*
 * fuse-overlayfs: see overlay_fuse.h.
 *
 * It runs outside the sandbox's pid namespace, so the sandbox can't see or signal it, but inside its user namespace,
 * so it has no more rights over files than the sandbox. In a mount namespace of its own it lets go of the file system
 * it serves: when the sandbox ends, the last mount goes and the program ends by itself. Nobody changes the mounts before
 * it has that namespace: the first look into the overlay waits until the program answers.
 */
#include "launch/overlay_fuse.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "launch/message.h"

/* Directly where the host lets everybody, else from the launcher, which asks the privileged helper. */
static int open_device(int control, struct fault *fault) {
  int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
  if (fuse >= 0) return fuse;
  struct starter_message message = {.word = STARTER_NEEDS_FUSE, .pid = getpid()};
  char byte;
  if (message_send(control, &message, sizeof message, NULL, 0) == 0 &&
      message_receive(control, &byte, 1, &fuse) == 1 && fuse >= 0) {
    return fuse;
  }
  return fault_set(fault, "launch_failed", "can't open /dev/fuse for the overlay");
}

static _Noreturn void serve(const char *program, const char *options, int fuse) {
  char device[32];
  char *const environment[] = {NULL};
  int kept = dup(fuse); /* Without close-on-exec: the one descriptor that fuse-overlayfs gets. */
  snprintf(device, sizeof device, "/dev/fd/%d", kept);
  /* It warns about names that a sandbox chose: not into our log. */
  cleanup_fd null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 0; fd < 3; fd++) {
    if (null < 0 || dup2(null, fd) < 0) _exit(1);
  }
  prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
  setsid();
  if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
      umount2("root", MNT_DETACH) != 0) {
    _exit(1);
  }
  union {
    const char *words[7];
    char *arguments[7];
  } list = {.words = {program, "-f", "-o", options, device, NULL}};
  execve(program, list.arguments, environment);
  _exit(127);
}

int overlay_mount_fuse(const struct launcher *launcher, const struct starter_plan *plan, const char *options,
                       struct fault *fault) {
  char mount_options[128];
  errno = 0;
  if (launcher->fuse_overlayfs == NULL) {
    return fault_set(fault, "launch_failed", "the kernel can't overlay here and fuse-overlayfs is not installed");
  }
  cleanup_fd fuse = open_device(plan->control_fd, fault);
  if (fuse < 0) return -1;
  snprintf(mount_options, sizeof mount_options, "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions",
           fuse);
  if (mount("overlay", "root", "fuse.fuse-overlayfs", MS_NODEV | MS_NOSUID, mount_options) != 0) {
    return fault_set(fault, "launch_failed", "can't mount the overlay through /dev/fuse");
  }
  pid_t child = fork();
  if (child == 0) serve(launcher->fuse_overlayfs, options, fuse);
  struct starter_message message = {.word = STARTER_OVERLAY_PID, .pid = child};
  if (child > 0 && message_send(plan->control_fd, &message, sizeof message, NULL, 0) == 0) return 0;
  return fault_set(fault, "launch_failed", "can't start fuse-overlayfs");
}

/*
 * What the privileged helper does for a process. Its pidfd comes from whoever has the helper's socket, and that may be
 * anybody's process of the host: it has to run under the daemon's ids, and so does who made its user namespace.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "launch/cgroup.h"
#include "common/file.h"
#include "launch/helper_verbs.h"
#include "launch/ids.h"
#include "launch/message.h"
#include "launch/owner.h"

/* <linux/nsfs.h>: the id, in our namespace, of who made a user namespace. */
#define OWNER_OF_NAMESPACE _IO(0xb7, 0x4)

/* The number behind the descriptor is the process's for as long as it is not reaped, and then the file says -1. */
static pid_t pid_behind(int pidfd) {
  char path[64];
  char text[512];
  snprintf(path, sizeof path, "/proc/self/fdinfo/%d", pidfd);
  if (pidfd < 0 || text_file_read(AT_FDCWD, path, text, sizeof text) < 0) return -1;
  const char *line = strstr(text, "\nPid:");
  return line == NULL ? -1 : (pid_t)atol(line + strlen("\nPid:"));
}

int helper_member_join(const struct cgroup_setup *groups, int pidfd, struct fault *fault) {
  pid_t pid = pid_behind(pidfd);
  errno = 0;
  if (pid <= 1) return fault_set(fault, "invalid_request", "the helper was given no living process");
  /* Last of all once more: what was looked at is what the number still stands for. */
  if (owner_of_process(pid) != ROOT_RANGE_FIRST || pid_behind(pidfd) != pid) {
    errno = 0;
    return fault_set(fault, "invalid_request", "process %d is not the daemon's", pid);
  }
  return cgroup_place(groups, CGROUP_EGRESS, pid, fault);
}

/* The process's user namespace, where somebody of the daemon's ids made it. */
static int open_namespace(int pidfd, struct fault *fault) {
  char path[64];
  uid_t maker = 0;
  pid_t pid = pid_behind(pidfd);
  snprintf(path, sizeof path, "/proc/%d/ns/user", pid);
  cleanup_fd namespace = pid <= 1 ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  bool is_ours = namespace >= 0 && ioctl(namespace, OWNER_OF_NAMESPACE, &maker) == 0 && owner_is_of_range(maker) &&
                 owner_is_of_range(owner_of_process(pid)) && pid_behind(pidfd) == pid;
  errno = 0;
  if (is_ours) return take_fd(&namespace);
  return fault_set(fault, "invalid_request", "the helper was given no process of a sandbox");
}

/* A process that becomes a member of the user namespace and opens the device as one. */
int helper_member_fuse(int pidfd, struct fault *fault) {
  int pair[2];
  cleanup_fd namespace = open_namespace(pidfd, fault);
  if (namespace < 0) return -1;
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
    return fault_set(fault, "launch_failed", "can't make a socket pair");
  }
  cleanup_fd own = pair[0];
  cleanup_fd other = pair[1];
  pid_t child = fork();
  if (child == 0) {
    int fuse = setns(namespace, CLONE_NEWUSER) == 0 ? open("/dev/fuse", O_RDWR | O_CLOEXEC) : -1;
    _exit(fuse >= 0 && message_send(other, "k", 1, &fuse, 1) == 0 ? 0 : errno);
  }
  close_fd(&other);
  char byte;
  int fuse = -1;
  if (child > 0) (void)message_receive(own, &byte, 1, &fuse);
  int status = 0;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (fuse >= 0) return fuse;
  errno = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  return fault_set(fault, "launch_failed", "can't open /dev/fuse for a sandbox");
}

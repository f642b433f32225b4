/*
 * The privileged helper's loop: see helper_process.h. What it does with loop devices is in helper_image.c.
 *
 * The helper trusts the launcher to be the daemon's own, but holds even a hijacked one to its verbs: directories must
 * belong to the daemon's id, images to root (so only this helper writes them), numbers stay in their ranges.
 */
#include "launch/helper_process.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "launch/cgroup.h"
#include "launch/clock.h"
#include "launch/file.h"
#include "launch/helper.h"
#include "launch/helper_verbs.h"
#include "launch/ids.h"
#include "launch/message.h"
#include "launch/title.h"

/* A process that becomes a member of the user namespace and opens the device as one. */
static int open_fuse(int pidfd, struct fault *fault) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
    return fault_set(fault, "launch_failed", "can't make a socket pair");
  }
  cleanup_fd own = pair[0];
  cleanup_fd other = pair[1];
  pid_t child = fork();
  if (child == 0) {
    int fuse = setns(pidfd, CLONE_NEWUSER) == 0 ? open("/dev/fuse", O_RDWR | O_CLOEXEC) : -1;
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

/* The number behind the descriptor is the process's for as long as it is not reaped, and then the file says -1. */
static pid_t pid_behind(int pidfd) {
  char path[64];
  char text[512];
  snprintf(path, sizeof path, "/proc/self/fdinfo/%d", pidfd);
  if (file_read(AT_FDCWD, path, text, sizeof text) < 0) return -1;
  const char *line = strstr(text, "\nPid:");
  return line == NULL ? -1 : (pid_t)atol(line + strlen("\nPid:"));
}

/* Only what runs under the daemon's id: a hijacked launcher must not move the host's own services. */
static int join_group(const struct cgroup_setup *groups, int pidfd, struct fault *fault) {
  char path[64];
  struct stat status;
  pid_t pid = pid_behind(pidfd);
  errno = 0;
  if (pid <= 1) return fault_set(fault, "invalid_request", "the helper was given no living process");
  snprintf(path, sizeof path, "/proc/%d", pid);
  if (stat(path, &status) != 0 || status.st_uid != ROOT_RANGE_FIRST || pid_behind(pidfd) != pid) {
    errno = 0;
    return fault_set(fault, "invalid_request", "process %d is not the daemon's", pid);
  }
  return cgroup_place(groups, CGROUP_EGRESS, pid, fault);
}

static int tell_abilities(int data_fd, struct fault *fault) {
  struct helper_abilities abilities = {0};
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return fault_set(fault, "launch_failed", "can't make a pipe");
  cleanup_fd reader = ends[0];
  cleanup_fd writer = ends[1];
  helper_image_ability(&abilities);
  helper_project_ability(data_fd, &abilities);
  if (write_whole(writer, &abilities, sizeof abilities) != 0) return fault_set(fault, "launch_failed", "can't write");
  return take_fd(&reader);
}

/* A directory of the daemon's own: what a hijacked launcher could name is then no more than it could write itself. */
static int check_directory(int directory, struct fault *fault) {
  struct stat status;
  errno = 0;
  if (fstat(directory, &status) != 0 || !S_ISDIR(status.st_mode)) {
    return fault_set(fault, "invalid_request", "the helper was given no directory");
  }
  if (status.st_uid == ROOT_RANGE_FIRST || status.st_uid == ROOT_RANGE_FIRST + 1) return 0;
  return fault_set(fault, "invalid_request", "the helper was given a directory of uid %u", status.st_uid);
}

static bool is_checked(const struct helper_request *request) {
  size_t length = strnlen(request->name, sizeof request->name);
  bool is_named = request->verb == HELPER_CREATE_IMAGE || request->verb == HELPER_ATTACH_IMAGE;
  bool is_owned = request->verb == HELPER_ATTACH_IMAGE || request->verb == HELPER_MAKE_DEVICES;
  if (is_owned && request->owner != ROOT_RANGE_FIRST &&
      request->owner != ROOT_RANGE_FIRST + 1) {
    return false;
  }
  if (!is_named) return true;
  return length > 4 && length < sizeof request->name && strchr(request->name, '/') == NULL &&
         strcmp(request->name + length - 4, ".img") == 0 && request->name[0] != '.';
}

/* Returns a descriptor to hand back, -1 where the verb has none or failed. */
static int serve(const struct cgroup_setup *groups, const struct helper_request *request, int directory,
                 struct helper_answer *answer) {
  int result = -1;
  errno = 0;
  if (!is_checked(request)) {
    fault_set(&answer->fault, "invalid_request", "the helper was given a malformed name");
    return -1;
  }
  bool is_process = request->verb == HELPER_OPEN_FUSE || request->verb == HELPER_JOIN_GROUP;
  if (!is_process && check_directory(directory, &answer->fault) != 0) return -1;
  switch (request->verb) {
    case HELPER_CREATE_IMAGE:
      answer->is_fine = helper_image_create(directory, request, &answer->fault) == 0;
      return -1;
    case HELPER_SET_PROJECT:
      answer->is_fine = helper_project_set(directory, request, &answer->fault) == 0;
      return -1;
    case HELPER_JOIN_GROUP:
      answer->is_fine = join_group(groups, directory, &answer->fault) == 0;
      return -1;
    case HELPER_ATTACH_IMAGE: result = helper_image_attach(directory, request, &answer->fault); break;
    case HELPER_MAKE_DEVICES: result = helper_devices_make(request, &answer->fault); break;
    case HELPER_OPEN_FUSE: result = open_fuse(directory, &answer->fault); break;
    case HELPER_ABILITIES: result = tell_abilities(directory, &answer->fault); break;
    case HELPER_GRANT_IMAGE: break; /* Has been carried out: it has no answer. */
  }
  answer->is_fine = result >= 0;
  return result;
}

static bool is_kept(int fd, const int own[2], const struct cgroup_setup *groups) {
  for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
    if (groups->base[i] == fd) return true;
  }
  return fd == own[0] || fd == own[1] || fd == groups->origin;
}

static void close_others(const int own[2], const struct cgroup_setup *groups) {
  /* `enter` has opened a handful by now. */
  for (int fd = 3; fd < 64; fd++) {
    if (!is_kept(fd, own, groups)) close(fd);
  }
}

static void serve_requests(int socket, const struct cgroup_setup *groups) {
  for (;;) {
    struct helper_request request;
    struct helper_answer answer = {0};
    int descriptors[2];
    ssize_t got = message_receive_some(socket, &request, sizeof request, descriptors, 2);
    if (got <= 0) return; /* The launcher and all its children are gone. */
    cleanup_fd reply = descriptors[0];
    cleanup_fd directory = descriptors[1];
    if (got != (ssize_t)sizeof request || reply < 0) continue;
    if (request.verb == HELPER_GRANT_IMAGE) {
      (void)helper_image_grant(reply, request.bytes_max, &answer.fault);
      continue;
    }
    if (directory < 0) continue;
    cleanup_fd result = serve(groups, &request, directory, &answer);
    (void)message_send(reply, &answer, sizeof answer, &result, result < 0 ? 0 : 1);
  }
}

/*
 * A child serves, this process only waits: nobody could start another helper as root later on, so what kills the child
 * (somebody's `kill -9`, want of memory) costs the request it was at, and the next child takes the next one. A child
 * whose parent was killed serves on and does the parent's last act.
 */
static void serve_by_children(int socket, const struct cgroup_setup *groups) {
  pid_t own = getpid();
  for (;;) {
    pid_t child = fork();
    if (child <= 0) serve_requests(socket, groups); /* Itself, where there is no room for another process. */
    if (child == 0 && getppid() == own) _exit(0);
    if (child <= 0) return;
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    if (WIFEXITED(status)) return;
  }
}

static _Noreturn void helper_main(int socket, int lock, const struct cgroup_setup *groups) {
  const int own[2] = {socket, lock}; /* The lock goes when this process and its child end, whatever ends them. */
  /* A child of ours joins user namespaces; it stays root's, and nobody in there may trace it. */
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  setsid();
  /* It goes with its launcher and not before: whoever ends both by signal (a service manager, `kill`) would else leave
     the groups standing. */
  signal(SIGTERM, SIG_IGN);
  signal(SIGINT, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
  title_set("squash-launch helper %s", groups->name);
  if (chdir("/") != 0) _exit(1);
  cleanup_fd null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 0; null >= 0 && fd < 3; fd++) dup2(null, fd);
  close_others(own, groups);
  cgroup_place_launcher(groups, 0);
  serve_by_children(socket, groups);
  cgroup_dissolve(groups);
  _exit(0);
}

/* It ends within milliseconds once its launcher and the launcher's children are gone; a loaded machine takes longer. */
enum { HELPER_END_MS = 15000, LOCK_POLL_MS = 5 };

int helper_lock(int run_directory, struct fault *fault) {
  cleanup_fd lock = openat(run_directory, "helper.lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  for (int waited = 0; lock >= 0 && waited < HELPER_END_MS; waited += LOCK_POLL_MS) {
    if (flock(lock, LOCK_EX | LOCK_NB) == 0) return take_fd(&lock);
    if (errno != EWOULDBLOCK) break;
    sleep_ms(LOCK_POLL_MS);
  }
  return fault_set(fault, "launch_failed", "the privileged helper of an earlier launcher does not end");
}

int helper_start(const struct cgroup_setup *groups, int lock, struct fault *fault) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
    return fault_set(fault, "launch_failed", "can't make a socket pair");
  }
  pid_t between = fork();
  if (between == 0) {
    close(pair[0]);
    if (fork() == 0) helper_main(pair[1], lock, groups);
    _exit(0);
  }
  close(pair[1]);
  while (between > 0 && waitpid(between, NULL, 0) < 0 && errno == EINTR) continue;
  return between > 0 ? pair[0] : fault_set(fault, "launch_failed", "can't fork");
}

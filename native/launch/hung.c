/*
 * Ending what hangs: see hung.h. Who the launcher is says its socket, and that lies where the daemon writes: so it is killed
 * with the daemon's rights, and root ends nobody that the daemon could not have ended itself.
 */
#include "launch/hung.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "launch/cgroup.h"
#include "launch/helper_end.h"
#include "launch/ids.h"
#include "launch/launcher_record.h"
#include "launch/mend.h"
#include "launch/owner.h"
#include "common/syscalls.h"
#include "launch/title.h"

/* What it holds goes with it, which takes a loaded machine seconds. Its sandboxes the next start ends. */
enum { END_MS = 10000 };

static int become_daemon(void) {
  if (!is_root_of_range()) return 0;
  if (setgroups(0, NULL) != 0 || setresgid(ROOT_RANGE_FIRST, ROOT_RANGE_FIRST, ROOT_RANGE_FIRST) != 0) return -1;
  return setresuid(ROOT_RANGE_FIRST, ROOT_RANGE_FIRST, ROOT_RANGE_FIRST);
}

static int open_run(const struct enter_options *options, struct fault *fault) {
  cleanup_fd data_fd = owner_open(options->data, options->data_given, fault);
  if (data_fd < 0) return -1;
  return options->run_below == NULL ? owner_open(options->run, options->run_given, fault)
                                    : owner_open_below(data_fd, options->run_below, fault);
}

static int end_pinned(int pidfd, pid_t pid) {
  fprintf(stderr, "squash-launch: the launcher %d does not answer: it is ended\n", pid);
  if (sys_pidfd_send_signal(pidfd, SIGKILL) != 0) {
    perror("squash-launch: can't end the launcher");
    return 1;
  }
  struct pollfd ended = {.fd = pidfd, .events = POLLIN};
  return poll(&ended, 1, END_MS) == 1 ? 0 : 1;
}

/* By the title that it alone writes, where root has no record or there is no root. */
static int end_titled(const char *data) {
  char wanted[PATH_MAX + 64];
  int result = 1;
  snprintf(wanted, sizeof wanted, "squash-launch resident %s", data);
  DIR *entries = opendir("/proc");
  if (entries == NULL) return 1;
  for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
    pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
    cleanup_fd pidfd = pid > 1 ? sys_pidfd_open(pid) : -1;
    if (pidfd >= 0 && owner_of_process(pid) == getuid() && title_is(pid, wanted)) result = end_pinned(pidfd, pid);
  }
  closedir(entries);
  return result;
}

/* So many have connected that nobody else can. */
static int end_unreachable(const char *data) {
  char group[CGROUP_NAME_BYTES];
  cgroup_base_name(data, group, sizeof group);
  pid_t pid = launcher_record_read(group);
  cleanup_fd pidfd = pid > 0 ? sys_pidfd_open(pid) : -1;
  bool is_recorded = pidfd >= 0 && launcher_record_names(group, pid);
  if (become_daemon() != 0) return 1;
  return is_recorded ? end_pinned(pidfd, pid) : end_titled(data);
}

int hung_end_launcher(const struct enter_options *options) {
  struct fault fault = {0};
  struct ucred peer;
  cleanup_fd run_fd = open_run(options, &fault);
  if (run_fd < 0) return 1;
  /* The kernel takes connections for a process that is stopped. */
  cleanup_fd connection = launcher_connect(run_fd, &peer);
  if (connection < 0) return errno == EAGAIN ? end_unreachable(options->data) : 1;
  if (become_daemon() != 0) return 1;
  cleanup_fd pidfd = sys_pidfd_open(peer.pid);
  /* Still connected after the process was pinned: the id was not used again for somebody else. */
  struct pollfd hangup = {.fd = connection, .events = POLLIN | POLLRDHUP};
  if (pidfd < 0 || poll(&hangup, 1, 0) != 0) return 0;
  return end_pinned(pidfd, peer.pid);
}

int hung_end_helper(const struct enter_options *options) {
  char group[CGROUP_NAME_BYTES];
  cgroup_base_name(options->data, group, sizeof group);
  cleanup_fd data_fd = open(options->data, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (data_fd < 0) return 1;
  fputs("squash-launch: the privileged helper does not answer: it is ended\n", stderr);
  helper_end(group, data_fd);
  return 0;
}

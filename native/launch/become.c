/* Changing who this process is: see become.h. */
#include "launch/become.h"

#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>


/* Enough for 1,000 sandboxes with their connections; above it only costs kernel memory. */
enum { OPEN_FILES_MAX = 1048576 };

int become_inner_root(struct fault *fault) {
  /* Where setgroups is denied (single-id mode) the groups stay; they are unmapped inside and give no rights
     that the user who started us did not have. */
  if (setgroups(0, NULL) != 0 && errno != EPERM) {
    return fault_set(fault, "launch_failed", "can't drop supplementary groups");
  }
  if (setresgid(0, 0, 0) != 0 || setresuid(0, 0, 0) != 0) {
    return fault_set(fault, "launch_failed", "can't become id 0 of the daemon's user namespace");
  }
  prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* Else /proc/<pid> belongs to the host's root and nobody can join us. */
  return 0;
}

int become_inner_id(uid_t id, struct fault *fault) {
  if (id != 0 && (setgroups(0, NULL) != 0 || setresgid(id, id, id) != 0 || setresuid(id, id, id) != 0)) {
    return fault_set(fault, "launch_failed", "can't become id %u", id);
  }
  /* Changing ids cleared both. Readable /proc files are what lets the launcher write our id maps; nobody in a
     sandbox can trace us through that, because tracing across user namespaces needs a capability in ours. */
  prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  return 0;
}

void raise_open_files(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max < OPEN_FILES_MAX ? limit.rlim_max : OPEN_FILES_MAX;
  setrlimit(RLIMIT_NOFILE, &limit);
}

void raise_open_files_limit(void) {
  struct rlimit limit;
  if (geteuid() != 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max >= OPEN_FILES_MAX) return;
  limit.rlim_max = OPEN_FILES_MAX;
  (void)setrlimit(RLIMIT_NOFILE, &limit); /* Where the kernel's own bound is lower, what there is has to do. */
}

int lift_counted_limits(struct counted_limits *before) {
  static const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
  if (getrlimit(RLIMIT_SIGPENDING, &before->signals) != 0 || getrlimit(RLIMIT_MSGQUEUE, &before->queues) != 0) return -1;
  (void)setrlimit(RLIMIT_SIGPENDING, &none);
  (void)setrlimit(RLIMIT_MSGQUEUE, &none);
  return 0;
}

int restore_counted_limits(const struct counted_limits *before) {
  if (setrlimit(RLIMIT_SIGPENDING, &before->signals) != 0) return -1;
  return setrlimit(RLIMIT_MSGQUEUE, &before->queues);
}

const char *program_path(const char *program, char *out) {
  if (strchr(program, '/') != NULL) return realpath(program, out);
  const char *path = getenv("PATH");
  for (const char *part = path == NULL ? "/usr/bin" : path; *part != '\0';) {
    size_t bytes = strcspn(part, ":");
    char candidate[PATH_MAX];
    snprintf(candidate, sizeof candidate, "%.*s/%s", (int)bytes, part, program);
    if (access(candidate, X_OK) == 0) return realpath(candidate, out);
    part += bytes + (part[bytes] == ':');
  }
  return NULL;
}

const char *program_directory(const char *program, char *out) {
  if (program_path(program, out) == NULL) return NULL;
  char *slash = strrchr(out, '/');
  slash[slash == out] = '\0';
  return out;
}

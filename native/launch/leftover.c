/* What a killed launcher left behind: see leftover.h. */
#include "launch/leftover.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/file.h"
#include "launch/ids.h"
#include "launch/owner.h"
#include "launch/spread.h"
#include "common/syscalls.h"

enum { END_MS = 10000 };

/* What tells a process from a later one with the same id. */
struct identity {
  unsigned long long start;
  unsigned long long pid_namespace;
};

static int identity_of(pid_t pid, struct identity *identity) {
  char path[64];
  char text[2048];
  struct stat status;
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  if (text_file_read(AT_FDCWD, path, text, sizeof text) < 0) return -1;
  /* The name in parentheses may hold anything, also parentheses; fields are counted behind the last one. */
  char *field = strrchr(text, ')');
  for (int i = 0; field != NULL && i < 20; i++) field = strchr(field + 1, ' ');
  if (field == NULL) return -1;
  identity->start = strtoull(field + 1, NULL, 10);
  snprintf(path, sizeof path, "/proc/%d/ns/pid", pid);
  if (stat(path, &status) != 0) return -1;
  identity->pid_namespace = status.st_ino;
  return 0;
}

int leftover_record(int sockets, uint64_t instance, pid_t pid) {
  struct identity identity;
  if (identity_of(pid, &identity) != 0) return -1;
  char name[48];
  char made_at[SPREAD_NAME_BYTES];
  char text[128];
  snprintf(name, sizeof name, "%llu.pid", (unsigned long long)instance);
  spread_name(instance, made_at);
  int length = snprintf(text, sizeof text, "%d %llu %llu\n", pid, identity.start, identity.pid_namespace);
  (void)unlinkat(sockets, made_at, 0); /* What could not get its own name. */
  cleanup_fd fd = openat(sockets, made_at, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  return fd < 0 || write_whole(fd, text, (size_t)length) != 0 ? -1 : renameat(sockets, made_at, sockets, name);
}

void leftover_forget(int sockets, uint64_t instance) {
  char name[48];
  snprintf(name, sizeof name, "%llu.pid", (unsigned long long)instance);
  (void)unlinkat(sockets, name, 0);
}

/*
 * A record is what somebody wrote whom we may not believe. Where root started Squash only processes of its own ids are
 * ended, which is no more than the writer could do; anybody else ends what is his. A sandbox's first process is in a
 * pid namespace that is not ours.
 */
static bool is_sandbox(pid_t pid, const struct identity *identity) {
  struct identity own;
  return identity_of(getpid(), &own) == 0 && identity->pid_namespace != own.pid_namespace &&
         (!is_root_of_range() || owner_is_of_range(owner_of_process(pid)));
}

/* A regular file and nothing that would be waited for. */
static ssize_t read_record(int sockets, const char *name, char *text, size_t size) {
  cleanup_fd fd = open_inside(sockets, name, O_RDONLY | O_NONBLOCK);
  struct stat status;
  if (fd < 0 || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return -1;
  ssize_t got = read(fd, text, size - 1);
  if (got >= 0) text[got] = '\0';
  return got;
}

static int end_recorded(int sockets, const char *name, struct fault *fault) {
  char text[128];
  struct identity recorded;
  struct identity present;
  pid_t pid;
  if (read_record(sockets, name, text, sizeof text) < 0 ||
      sscanf(text, "%d %llu %llu", &pid, &recorded.start, &recorded.pid_namespace) != 3 || pid <= 1) {
    return 0; /* A torn record of an earlier version: its launcher died before the sandbox could run. */
  }
  cleanup_fd pidfd = sys_pidfd_open(pid); /* Pinned before it is compared, so that it is the one compared. */
  if (pidfd < 0 || identity_of(pid, &present) != 0) return 0;
  if (present.start != recorded.start || present.pid_namespace != recorded.pid_namespace) return 0;
  if (!is_sandbox(pid, &present)) return 0;
  if (sys_pidfd_send_signal(pidfd, SIGKILL) != 0 && errno != ESRCH) {
    return fault_set(fault, "launch_failed", "can't end process %d of a sandbox that a dead launcher left", pid);
  }
  struct pollfd ended = {.fd = pidfd, .events = POLLIN};
  errno = 0;
  if (poll(&ended, 1, END_MS) == 1) return 0;
  return fault_set(fault, "launch_failed", "process %d of a dead launcher's sandbox does not end", pid);
}

int leftover_end(int run_directory, const char *data, struct fault *fault) {
  cleanup_fd sockets = open_inside(run_directory, "g", O_RDONLY | O_DIRECTORY);
  if (sockets < 0) return errno == ENOENT ? 0 : fault_set(fault, "launch_failed", "can't open g below \"%s\"", data);
  struct stat status;
  errno = 0;
  if (fstat(sockets, &status) != 0 || status.st_uid != (ids_daemon_user())) {
    return fault_set(fault, "launch_failed", "g below \"%s\" is not the daemon's", data);
  }
  DIR *entries = fdopendir(openat(sockets, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (entries == NULL) return fault_set(fault, "launch_failed", "can't list g below \"%s\"", data);
  int result = 0;
  for (struct dirent *entry; result == 0 && (entry = readdir(entries)) != NULL;) {
    const char *dot = strrchr(entry->d_name, '.');
    if (dot == NULL || dot == entry->d_name) continue;
    bool is_record = strcmp(dot, ".pid") == 0;
    if (!is_record && strcmp(dot, ".sock") != 0) continue;
    if (is_record) result = end_recorded(sockets, entry->d_name, fault);
    if (result == 0) (void)unlinkat(sockets, entry->d_name, 0);
  }
  closedir(entries);
  return result;
}

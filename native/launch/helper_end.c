/*
 * Ending a helper that hangs: see helper_end.h. It is found by its title, which carries the name of its data directory's
 * control group, and by the data directory's lock, which it holds: in another root's tree there may be one of the same path.
 * Anybody may give himself that title, so only who is real root counts: nobody else becomes that by a set-uid file. That is
 * asked first, because whoever owns a process can make a look at its title wait for ever. What is signalled was pinned before
 * it was looked at.
 */
#include "launch/helper_end.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "launch/owner.h"
#include "common/syscalls.h"
#include "launch/title.h"

enum {
  /* One that sleeps in the kernel takes longer: then whoever asks again does. */
  END_MS = 5000,
  /* Both of them, and what looking at other processes takes. */
  ALL_S = 15,
};

struct wanted {
  char title[256];
  struct stat lock;
};

static bool has_lock(pid_t pid, const struct stat *lock) {
  char path[64];
  bool is_found = false;
  snprintf(path, sizeof path, "/proc/%d/fd", pid);
  DIR *entries = opendir(path);
  if (entries == NULL) return false;
  for (struct dirent *entry; !is_found && (entry = readdir(entries)) != NULL;) {
    struct stat status;
    is_found = entry->d_name[0] != '.' && fstatat(dirfd(entries), entry->d_name, &status, 0) == 0 &&
               status.st_dev == lock->st_dev && status.st_ino == lock->st_ino;
  }
  closedir(entries);
  return is_found;
}

static bool is_helper(pid_t pid, const struct wanted *wanted) {
  return owner_of_process(pid) == 0 && title_is(pid, wanted->title) && has_lock(pid, &wanted->lock);
}

static void signal_one(pid_t pid, const struct wanted *wanted, int number) {
  cleanup_fd pidfd = sys_pidfd_open(pid);
  if (pidfd < 0 || !is_helper(pid, wanted) || sys_pidfd_send_signal(pidfd, number) != 0 || number != SIGKILL) return;
  struct pollfd ended = {.fd = pidfd, .events = POLLIN};
  (void)poll(&ended, 1, END_MS);
}

static void signal_all(const struct wanted *wanted, int number) {
  DIR *entries = opendir("/proc");
  if (entries == NULL) return;
  for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
    pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
    if (pid > 1) signal_one(pid, wanted, number);
  }
  closedir(entries);
}

/* Whatever this waits for, SIGALRM ends it. */
static _Noreturn void end_in_time(const struct wanted *wanted) {
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, SIGALRM);
  signal(SIGALRM, SIG_DFL);
  sigprocmask(SIG_UNBLOCK, &only, NULL);
  alarm(ALL_S);
  /* Stopped first: a parent that sees its child end would make another one in between. */
  signal_all(wanted, SIGSTOP);
  signal_all(wanted, SIGKILL);
  _exit(0);
}

void helper_end(const char *group, int data_fd) {
  struct wanted wanted;
  snprintf(wanted.title, sizeof wanted.title, "squash-launch helper %s", group);
  if (fstatat(data_fd, "helper.lock", &wanted.lock, AT_SYMLINK_NOFOLLOW) != 0) return;
  pid_t pid = fork();
  if (pid == 0) end_in_time(&wanted);
  while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR) continue;
}

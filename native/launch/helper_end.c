/*
 * Ending a helper that hangs: see helper_end.h. It is found by its title, which carries the name of its data directory's
 * control group. Anybody may give himself that title, so only who is real root counts: nobody else becomes that by a
 * set-uid file. What is signalled was pinned before it was looked at.
 */
#include "launch/helper_end.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/descriptor.h"
#include "launch/file.h"
#include "launch/owner.h"
#include "launch/syscalls.h"

/* One that sleeps in the kernel takes longer: then whoever asks again does. */
enum { END_MS = 5000 };

static bool is_helper(pid_t pid, const char *title) {
  char path[64];
  char text[256];
  snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
  return file_read(AT_FDCWD, path, text, sizeof text) > 0 && strcmp(text, title) == 0 && owner_of_process(pid) == 0;
}

static void signal_one(pid_t pid, const char *title, int number) {
  cleanup_fd pidfd = sys_pidfd_open(pid);
  if (pidfd < 0 || !is_helper(pid, title) || sys_pidfd_send_signal(pidfd, number) != 0 || number != SIGKILL) return;
  struct pollfd ended = {.fd = pidfd, .events = POLLIN};
  (void)poll(&ended, 1, END_MS);
}

static void signal_all(const char *title, int number) {
  DIR *entries = opendir("/proc");
  if (entries == NULL) return;
  for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
    pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
    if (pid > 1) signal_one(pid, title, number);
  }
  closedir(entries);
}

void helper_end(const char *group) {
  char title[256];
  snprintf(title, sizeof title, "squash-launch helper %s", group);
  /* Stopped first: a parent that sees its child end would make another one in between. */
  signal_all(title, SIGSTOP);
  signal_all(title, SIGKILL);
}

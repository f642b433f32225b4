/* Temporary files: see temporary.h. */
#include "init/temporary.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NO_REPLACE = 1 }; /* RENAME_NOREPLACE; musl has neither name nor function. */

static int place = -1;
static char temporary[64];

/* Only calls that a handler may make. */
static void end(int signo) {
  (void)signo;
  temporary_remove();
  _exit(0);
}

void temporary_guard(void) {
  struct sigaction action = {.sa_handler = end};
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  (void)sigaction(SIGTERM, &action, NULL); /* Neither can fail for this signal. */
  (void)sigprocmask(SIG_UNBLOCK, &set, NULL);
}

int temporary_create(int directory) {
  for (int tries = 0;; tries++) {
    uint64_t number;
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) return -1;
    (void)snprintf(temporary, sizeof temporary, ".squash-%016llx.tmp", (unsigned long long)number);
    place = directory; /* Before the file is there: a signal in between removes nothing. */
    int fd = openat(directory, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0) return fd;
    place = -1;
    if (errno != EEXIST || tries == 8) return -1;
  }
}

int temporary_keep(const char *name, bool is_exclusive) {
  if (syscall(SYS_renameat2, place, temporary, place, name, is_exclusive ? NO_REPLACE : 0) != 0) return -1;
  place = -1;
  return 0;
}

void temporary_remove(void) {
  int directory = place;
  place = -1;
  if (directory >= 0) (void)unlinkat(directory, temporary, 0); /* Somebody else may have removed it. */
}

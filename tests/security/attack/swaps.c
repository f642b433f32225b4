/* Names that change meaning while somebody else works with them, and files that hold their opener. */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* For as long as it lives: the caller kills it. */
static int exchange_forever(int argc, char **argv) {
  if (argc < 3) return 2;
  for (;;) {
    /* Either may be away for a moment, when the other side removes or moves it. */
    long result = syscall(SYS_renameat2, AT_FDCWD, argv[1], AT_FDCWD, argv[2], 2U /* RENAME_EXCHANGE */);
    if (result != 0 && errno != ENOENT) return untried("exchange: %s", strerror(errno));
  }
}

/* Takes away each directory that appears under the name, and puts a link to the target in its place. */
static int pounce_forever(int argc, char **argv) {
  if (argc < 3) return 2;
  for (unsigned long round = 0;; round++) {
    char aside[64];
    struct stat found;
    if (lstat(argv[1], &found) != 0 || !S_ISDIR(found.st_mode)) continue;
    snprintf(aside, sizeof aside, "aside-%lu", round);
    if (rename(argv[1], aside) == 0) (void)!symlink(argv[2], argv[1]);
  }
}

/* Whoever opens a leased file waits for its holder, who does not hear. */
static int lease_forever(int argc, char **argv) {
  if (argc < 2) return 2;
  signal(SIGIO, SIG_IGN);
  int file = open(argv[1], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || fcntl(file, F_SETLEASE, F_WRLCK) != 0) return untried("lease: %s", strerror(errno));
  if (creat("leased", 0600) < 0) return untried("no file here: %s", strerror(errno));
  for (;;) pause();
}

/* A directory that is never read to its end. */
static int litter_forever(int argc, char **argv) {
  if (argc < 2 || chdir(argv[1]) != 0) return 2;
  for (unsigned long round = 0;; round++) {
    char name[64];
    snprintf(name, sizeof name, "entry-%lu", round);
    int file = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (file >= 0) close(file);
    snprintf(name, sizeof name, "entry-%lu", round - 100);
    unlink(name);
    snprintf(name, sizeof name, "folder-%lu", round);
    if (round % 8 == 0 && mkdir(name, 0700) == 0) rmdir(name);
  }
}

/* A file that grows faster than it is read: all of it a hole, below the size that a sandbox's files may have. */
static int grow_forever(int argc, char **argv) {
  if (argc < 2) return 2;
  int file = open(argv[1], O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return untried("no file here: %s", strerror(errno));
  for (off_t length = 1;; length = (length + 1024 * 1024) % (48 * 1024 * 1024)) {
    if (ftruncate(file, length) != 0) return untried("grow: %s", strerror(errno));
  }
}

const struct attack swap_attacks[] = {
    {"exchange", exchange_forever}, {"pounce", pounce_forever}, {"lease", lease_forever},
    {"litter", litter_forever},     {"grow", grow_forever},     {0},
};

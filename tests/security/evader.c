/*
 * Fills the upper of its sandbox while it hinders those who measure it or end it: `evader signal 19 60` signals without
 * end everybody it can see (19: stop, 9: kill), `evader move 60` moves and renames without end what is looked at; both
 * write that many MiB meanwhile. Ends with 0 where nobody ended it. `evader vfork 60` can't be stopped by signals for that many seconds.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TREES = 8, DEPTH = 200, PAUSE_US = 25000 };

static char block[1 << 20];
static int signal_number;

static void fill(long mebibytes) {
  memset(block, 7, sizeof block);
  for (long i = 0; i < mebibytes; i++) {
    char name[64];
    snprintf(name, sizeof name, "/fill%ld", i);
    int fd = open(name, O_WRONLY | O_CREAT, 0600);
    if (fd < 0 || write(fd, block, sizeof block) != (ssize_t)sizeof block) exit(1);
    close(fd);
    usleep(PAUSE_US);
  }
}

static void *signal_all(void *unused) {
  for (;;) kill(-1, signal_number);
  return unused;
}

/* Deeper than a walk keeps directories open, so that it has to find its way back through `..`. */
static void make_trees(void) {
  if (mkdir("/a", 0700) != 0 || mkdir("/b", 0700) != 0) exit(1);
  for (int tree = 0; tree < TREES; tree++) {
    char name[64];
    snprintf(name, sizeof name, "/a/%d", tree);
    if (mkdir(name, 0700) != 0 || chdir(name) != 0) exit(1);
    for (int level = 0; level < DEPTH; level++) {
      if (mkdir("d", 0700) != 0 || chdir("d") != 0) exit(1);
    }
  }
  if (chdir("/") != 0) exit(1);
}

static void move_all(void) {
  for (unsigned round = 0;; round++) {
    for (int tree = 0; tree < TREES; tree++) {
      char from[64];
      char to[64];
      snprintf(from, sizeof from, "/%c/%d", round % 2 == 0 ? 'a' : 'b', tree);
      snprintf(to, sizeof to, "/%c/%d", round % 2 == 0 ? 'b' : 'a', tree);
      if (rename(from, to) != 0) exit(1);
    }
  }
}

int main(int argc, char **argv) {
  pthread_t threads[2];
  if (argc == 4 && strcmp(argv[1], "signal") == 0) {
    signal_number = atoi(argv[2]);
    for (int i = 0; i < 2; i++) {
      if (pthread_create(&threads[i], NULL, signal_all, NULL) != 0) return 1;
    }
  } else if (argc == 3 && strcmp(argv[1], "move") == 0) {
    make_trees();
    if (fork() == 0) move_all();
  } else if (argc == 3 && strcmp(argv[1], "vfork") == 0) {
    /* Until the child is gone the parent sleeps where no signal reaches it, so that it can't be stopped. */
    if (vfork() == 0) {
      sleep((unsigned)atoi(argv[2]));
      _exit(0);
    }
    return 0;
  } else {
    return 2;
  }
  fill(atol(argv[argc - 1]));
  return 0;
}

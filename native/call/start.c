/* Starting the daemon of boxes: see start.h. */
#include "call/start.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/descriptor.h"

extern char **environ;

enum {
  /* An environment of usual size many times over. */
  WORDS_BYTES_MAX = 256 * 1024,
  STRINGS_MAX = 4096,
  LOOK_NS = 5 * 1000 * 1000,
  LOOKS_MAX = 60 * 200,
};
enum part { PART_PROGRAM, PART_ENVIRONMENT, PART_SOCKETS, PART_SOURCES, PART_WORDS, PART_OWN_ENVIRONMENT, PARTS };

/* Each part ends with NULL. */
struct start {
  char *bytes;
  struct timespec written;
  char *strings[STRINGS_MAX];
  char **parts[PARTS];
};

static const char api_socket[] = "run/api.sock";

static bool is_there(int directory, const char *path) { return faccessat(directory, path, F_OK, AT_EACCESS) == 0; }

/* Ours, and written by nobody else. */
static bool is_own(int fd, mode_t type, struct stat *stat) {
  if (fstat(fd, stat) < 0 || (stat->st_mode & S_IFMT) != type) return false;
  return stat->st_uid == geteuid() && (stat->st_mode & 022) == 0;
}

static bool is_same_file(const char *one, const char *other) {
  struct stat a, b;
  return stat(one, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static bool split(struct start *start, size_t length) {
  size_t count = 0, part = 0;
  start->parts[0] = start->strings;
  for (char *at = start->bytes; at < start->bytes + length; at += strlen(at) + 1) {
    if (count == STRINGS_MAX || part == PARTS) return false;
    start->strings[count++] = *at == '\0' ? NULL : at;
    if (*at == '\0' && ++part < PARTS) start->parts[part] = start->strings + count;
  }
  return part == PARTS;
}

static bool read_words(int directory, struct start *start) {
  struct stat stat;
  cleanup_fd file = openat(directory, "log/start.words", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0 || !is_own(file, S_IFREG, &stat) || stat.st_size <= 0 || stat.st_size > WORDS_BYTES_MAX) return false;
  size_t size = (size_t)stat.st_size;
  start->written = stat.st_mtim;
  start->bytes = malloc(size);
  if (start->bytes == NULL || read_whole(file, start->bytes, size) != 1) return false;
  return start->bytes[size - 1] == '\0' && split(start, size);
}

static bool begins(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

/* What the daemon gets of it, or is found by. SQUASH_STANDBY is squash-call's own. */
static bool counts(const char *entry) {
  static const char *const names[] = {"PATH=", "LANG=", "LC_", "TZ=", "USER=", "LOGNAME=", "XDG_", "DBUS_SESSION_BUS_ADDRESS=", "SQUASH_"};
  if (begins(entry, "SQUASH_STANDBY=")) return false;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (begins(entry, names[i])) return true;
  }
  return false;
}

static bool has(char **entries, const char *wanted) {
  for (; *entries != NULL; entries++) {
    if (strcmp(*entries, wanted) == 0) return true;
  }
  return false;
}

static bool is_same_environment(char **known) {
  size_t ours = 0, theirs = 0;
  for (char **entry = environ; *entry != NULL; entry++) {
    if (!counts(*entry)) continue;
    if (!has(known, *entry)) return false;
    ours++;
  }
  for (; known[theirs] != NULL;) theirs++;
  return ours == theirs;
}

/* Another release may start it otherwise. */
static bool is_younger(const char *path, const struct timespec *than) {
  struct stat found;
  if (stat(path, &found) < 0) return true;
  const struct timespec *changed = &found.st_mtim;
  return changed->tv_sec > than->tv_sec || (changed->tv_sec == than->tv_sec && changed->tv_nsec > than->tv_nsec);
}

static bool fits(const struct start *start, const char *node, const char *program) {
  char *const *known = start->parts[PART_PROGRAM];
  if (known[0] == NULL || known[1] == NULL || start->parts[PART_WORDS][0] == NULL) return false;
  if (!is_same_file(known[0], node) || !is_same_file(known[1], program)) return false;
  for (char *const *path = start->parts[PART_SOCKETS]; *path != NULL; path++) {
    if (is_there(AT_FDCWD, *path)) return false;
  }
  for (char *const *path = start->parts[PART_SOURCES]; *path != NULL; path++) {
    if (is_younger(*path, &start->written)) return false;
  }
  return is_same_environment(start->parts[PART_ENVIRONMENT]);
}

/* One that was never made has a first stage, and a file of settings adds to the environment. */
static bool is_wanted(int directory) {
  return !is_there(directory, api_socket) && is_there(directory, "squash.db") && !is_there(directory, ".env");
}

static _Noreturn void become_daemon(int directory, const struct start *start) {
  int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  int log = openat(directory, "log/squashd.log", O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  char **words = start->parts[PART_WORDS];
  if (null < 0 || log < 0 || setsid() < 0 || fchdir(directory) < 0) _exit(1);
  if (dup2(null, 0) < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0) _exit(1);
  close_from(3);
  (void)execve(words[0], words, start->parts[PART_OWN_ENVIRONMENT]);
  _exit(1);
}

/* Has the lock as long as the start takes, and nothing of who called. */
static _Noreturn void stand_by(int directory, int lock, const struct start *start) {
  const struct timespec rest = {.tv_nsec = LOOK_NS};
  int kept[] = {directory, lock};
  (void)setsid();
  for (int fd = 0; fd < 3; fd++) (void)close(fd);
  /* So that no file of theirs gets one of these numbers. */
  for (int fd = 0; fd < 3; fd++) (void)open("/dev/null", O_RDWR);
  if (place_descriptors(kept, 2) < 0) _exit(1);
  directory = 3;
  close_from(5);
  pid_t daemon = fork();
  if (daemon == 0) become_daemon(directory, start);
  if (daemon < 0) _exit(1);
  for (int looks = 0; looks < LOOKS_MAX && !is_there(directory, api_socket); looks++) {
    if (waitpid(daemon, NULL, WNOHANG) != 0) break;
    (void)nanosleep(&rest, NULL);
  }
  _exit(0);
}

void start_daemon(const char *path, const char *node, const char *program) {
  struct start start = {0};
  struct stat stat;
  cleanup_fd directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0 || !is_own(directory, S_IFDIR, &stat) || !is_wanted(directory)) return;
  if (read_words(directory, &start) && fits(&start, node, program)) {
    cleanup_fd lock = openat(directory, "log/start.lock", O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    /* Whoever has it starts one, or has just done so. */
    if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0 && is_wanted(directory)) {
      pid_t first = fork();
      if (first == 0) {
        if (fork() == 0) stand_by(directory, lock, &start);
        _exit(0);
      }
      if (first > 0) (void)waitpid(first, NULL, 0);
    }
  }
  free(start.bytes);
}

/* Which host ids the daemon's namespace gets: see ids.h. Runs outside the namespace, with the caller's rights. */
#include "launch/ids.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/file.h"

static bool ids_are(const char *wanted) {
  const char *ids = getenv("SQUASH_IDS");
  return ids != NULL && strcmp(ids, wanted) == 0;
}

bool is_root_of_range(void) { return geteuid() == 0 && !ids_are("own"); }

uid_t ids_daemon_user(void) { return is_root_of_range() ? ROOT_RANGE_FIRST : geteuid(); }

bool ids_want_single(void) { return ids_are("single") || (ids_are("own") && geteuid() == 0); }

/* The name of `uid` in /etc/passwd, else $USER. newuidmap checks the truth of it; a wrong name only fails. */
static void user_name(uid_t uid, char *name, size_t size) {
  const char *fallback = getenv("USER");
  snprintf(name, size, "%s", fallback != NULL ? fallback : "");
  FILE *file = fopen("/etc/passwd", "re");
  if (file == NULL) return;
  char line[1024];
  while (fgets(line, sizeof line, file) != NULL) {
    char *first = strchr(line, ':');
    char *second = first == NULL ? NULL : strchr(first + 1, ':');
    if (second == NULL || strtoul(second + 1, NULL, 10) != uid) continue;
    *first = '\0';
    snprintf(name, size, "%.1000s", line);
    break;
  }
  fclose(file);
}

unsigned long ids_subordinate(const char *path, uid_t uid) {
  char name[1024];
  char number[16];
  user_name(uid, name, sizeof name);
  snprintf(number, sizeof number, "%u", uid);
  FILE *file = fopen(path, "re");
  if (file == NULL) return 0;
  char line[1024];
  unsigned long found = 0;
  while (found == 0 && fgets(line, sizeof line, file) != NULL) {
    char *start = strchr(line, ':');
    char *count = start == NULL ? NULL : strchr(start + 1, ':');
    if (count == NULL) continue;
    *start = '\0';
    if (strcmp(line, number) != 0 && (name[0] == '\0' || strcmp(line, name) != 0)) continue;
    if (strtoul(count + 1, NULL, 10) >= SANDBOX_IDS) found = strtoul(start + 1, NULL, 10);
  }
  fclose(file);
  return found;
}

/* Of the system's directories alone: a directory of PATH may be the repository's that a box is to keep in. */
static const char *find_newidmap(const char *name, char path[64]) {
  static const char *const directories[] = {"/usr/bin", "/bin", "/usr/local/bin", "/usr/sbin", "/run/wrappers/bin", "/run/privileged/bin"};
  for (size_t i = 0; i < sizeof directories / sizeof directories[0]; i++) {
    (void)snprintf(path, 64, "%s/%s", directories[i], name);
    if (access(path, X_OK) == 0) return path;
  }
  return NULL;
}

/* Runs the setuid program that may map subordinate ids. Returns 0 when it succeeded. */
static int run_newidmap(const char *name, pid_t target, unsigned own, unsigned long first) {
  char path[64];
  const char *program = find_newidmap(name, path);
  if (program == NULL) return -1;
  char pid[16];
  char own_text[16];
  char first_text[24];
  char count[16];
  snprintf(pid, sizeof pid, "%d", target);
  snprintf(own_text, sizeof own_text, "%u", own);
  snprintf(first_text, sizeof first_text, "%lu", first);
  snprintf(count, sizeof count, "%d", SANDBOX_IDS);
  pid_t child = fork();
  if (child < 0) return -1;
  if (child == 0) {
    execl(program, name, pid, "0", own_text, "1", "1", first_text, count, (char *)NULL);
    _exit(127);
  }
  int status;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

static int write_map(pid_t target, const char *file, unsigned first, unsigned count) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/%s", target, file);
  return text_file_write_format(AT_FDCWD, path, "0 %u %u\n", first, count);
}

/* Of root's namespace: the sandboxes' own ranges too, where whoever made the namespace we are in has left them to us. */
static int write_ranges(pid_t target, const char *file) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/%s", target, file);
  if (text_file_write_format(AT_FDCWD, path, "0 %u %u\n%u %u %u\n", ROOT_RANGE_FIRST, ROOT_RANGE_IDS, ROOT_RANGE_IDS,
                        OWN_RANGES_FIRST, OWN_RANGES * SANDBOX_IDS) == 0) {
    return 0;
  }
  return write_map(target, file, ROOT_RANGE_FIRST, ROOT_RANGE_IDS);
}

int ids_namespace(const char *map) {
  int ends[2];
  char path[64];
  if (pipe2(ends, O_CLOEXEC) != 0) return -1;
  cleanup_fd reader = ends[0];
  cleanup_fd writer = ends[1];
  /* The C library's fork makes no namespace, and a second call would need a word that it is made. */
  pid_t child = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
  if (child == 0) {
    char byte;
    close(writer);
    (void)!read(reader, &byte, 1); /* Until the descriptor is there, or its maker is not. */
    _exit(0);
  }
  int fd = -1;
  if (child > 0) {
    snprintf(path, sizeof path, "/proc/%d/gid_map", child);
    bool is_mapped = text_file_write(AT_FDCWD, path, map) == 0;
    snprintf(path, sizeof path, "/proc/%d/uid_map", child);
    is_mapped = is_mapped && text_file_write(AT_FDCWD, path, map) == 0;
    snprintf(path, sizeof path, "/proc/%d/ns/user", child);
    if (is_mapped) fd = open(path, O_RDONLY | O_CLOEXEC);
  }
  int why = errno;
  close_fd(&writer);
  while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR) continue;
  errno = why;
  return fd;
}

static int write_single(pid_t target, struct fault *fault) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/setgroups", target);
  /* An ordinary user may map its group only after setgroups is off, else it could leave a group that denies. */
  if (!is_root_of_range() && text_file_write(AT_FDCWD, path, "deny") != 0) {
    return fault_set(fault, "launch_failed", "can't write %s", path);
  }
  unsigned uid = ids_daemon_user();
  unsigned gid = is_root_of_range() ? ROOT_RANGE_FIRST : getegid();
  if (write_map(target, "gid_map", gid, 1) != 0 || write_map(target, "uid_map", uid, 1) != 0) {
    return fault_set(fault, "launch_failed", "can't map one id into the daemon's user namespace");
  }
  return 0;
}

int ids_write_maps(pid_t target, bool *is_single, char *why, size_t why_size, struct fault *fault) {
  why[0] = '\0';
  if (*is_single) return write_single(target, fault);
  if (is_root_of_range()) {
    if (write_ranges(target, "gid_map") != 0 || write_ranges(target, "uid_map") != 0) {
      return fault_set(fault, "launch_failed", "can't map the range 0x70000000 into the daemon's user namespace");
    }
    return 0;
  }
  unsigned long uids = ids_subordinate("/etc/subuid", geteuid());
  unsigned long gids = ids_subordinate("/etc/subgid", geteuid());
  if (uids == 0 || gids == 0) {
    snprintf(why, why_size, "no subordinate range of %d ids in /etc/subuid and /etc/subgid", SANDBOX_IDS);
  } else if (run_newidmap("newgidmap", target, getegid(), gids) != 0) {
    snprintf(why, why_size, "newgidmap is missing or refuses");
  } else if (run_newidmap("newuidmap", target, geteuid(), uids) != 0) {
    /* The group map is written and stays; one user id alone still works. */
    snprintf(why, why_size, "newuidmap refuses where newgidmap did not");
    *is_single = true;
    if (write_map(target, "uid_map", geteuid(), 1) == 0) return 0;
    return fault_set(fault, "launch_failed", "can't map one id into the daemon's user namespace");
  } else {
    return 0;
  }
  *is_single = true;
  return write_single(target, fault);
}

/* Root's own word on who the launcher is: see launcher_record.h. */
#include "launch/launcher_record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/file.h"
#include "launch/ids.h"

static bool is_roots(int directory) {
  struct stat status;
  return fstat(directory, &status) == 0 && status.st_uid == 0 && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* The directory of records; -1 where nothing in it could be believed. */
static int open_records(void) {
  if (!is_root_of_range()) return -1;
  cleanup_fd run = open("/run", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (run < 0 || !is_roots(run)) return -1;
  if (mkdirat(run, "squash-launch", 0700) != 0 && errno != EEXIST) return -1;
  cleanup_fd records = openat(run, "squash-launch", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  return records >= 0 && is_roots(records) ? take_fd(&records) : -1;
}

/* Clock ticks from boot to its start, which tell a process from a later one with its id; 0 where there is none. */
static unsigned long long start_of(pid_t pid) {
  char path[64];
  char text[2048];
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  if (text_file_read(AT_FDCWD, path, text, sizeof text) < 0) return 0;
  /* The name in parentheses may hold anything, also parentheses; fields are counted behind the last one. */
  char *field = strrchr(text, ')');
  for (int i = 0; field != NULL && i < 20; i++) field = strchr(field + 1, ' ');
  return field == NULL ? 0 : strtoull(field + 1, NULL, 10);
}

void launcher_record_write(const char *name, pid_t pid) {
  char text[64];
  cleanup_fd records = open_records();
  if (records < 0) return;
  (void)unlinkat(records, name, 0);
  int length = snprintf(text, sizeof text, "%d %llu\n", pid, start_of(pid));
  cleanup_fd file = openat(records, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file >= 0 && write_whole(file, text, (size_t)length) != 0) (void)unlinkat(records, name, 0);
}

void launcher_record_forget(const char *name) {
  cleanup_fd records = open_records();
  if (records >= 0) (void)unlinkat(records, name, 0);
}

bool launcher_record_exists(const char *name) {
  cleanup_fd records = open_records();
  return records >= 0 && faccessat(records, name, F_OK, 0) == 0;
}

pid_t launcher_record_read(const char *name) {
  char text[64];
  pid_t pid;
  unsigned long long start;
  cleanup_fd records = open_records();
  bool is_sound = records >= 0 && text_file_read(records, name, text, sizeof text) > 0 &&
                  sscanf(text, "%d %llu", &pid, &start) == 2 && start != 0 && start == start_of(pid);
  return is_sound ? pid : 0;
}

bool launcher_record_names(const char *name, pid_t pid) { return pid > 0 && launcher_record_read(name) == pid; }

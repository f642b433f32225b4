/*
 * What was made of the host's names: see apply_home.h.
 *
 * A line for each: when the inode changed, a blank, the path, a zero byte. Old ones stay: they cost a few bytes and say what was true.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "launch/apply_home.h"
#include "common/file.h"

#define JOURNAL "applied"
enum { JOURNAL_BYTES_MAX = 16 * 1024 * 1024, LINE_BYTES = REQUEST_PATH_BYTES_MAX + 32 };

static uint64_t changed_us(const struct stat *status) {
  return (uint64_t)status->st_ctim.tv_sec * 1000000 + (uint64_t)status->st_ctim.tv_nsec / 1000;
}

static size_t write_line(const char *path, const struct stat *status, char line[LINE_BYTES]) {
  int length = snprintf(line, LINE_BYTES, "%llu %s", (unsigned long long)changed_us(status), path);
  return length > 0 && length < LINE_BYTES ? (size_t)length + 1 : 0;
}

static int by_text(const void *one, const void *other) {
  return strcmp(*(const char *const *)one, *(const char *const *)other);
}

static int read_lines(struct home *home, size_t bytes) {
  char *text = malloc(bytes + 1);
  size_t count = 0;
  ssize_t got = text == NULL ? -1 : pread(home->journal, text, bytes, 0);
  if (got < 0) return -1;
  text[got] = '\0';
  for (ssize_t at = 0; at < got; at++) count += text[at] == '\0';
  home->earlier = calloc(count + 1, sizeof *home->earlier);
  if (home->earlier == NULL) return -1;
  /* The last line may have been cut short: it has no zero byte of its own, and is nobody's. */
  for (const char *line = text; home->earlier_count < count; line += strlen(line) + 1) home->earlier[home->earlier_count++] = line;
  qsort(home->earlier, home->earlier_count, sizeof *home->earlier, by_text);
  return 0;
}

int journal_open(struct home *home) {
  struct stat status;
  home->journal = openat(home->upper, JOURNAL, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (home->journal < 0 || fstat(home->journal, &status) != 0) return -1;
  /* One that became so long begins anew: what was brought before is then told as somebody's change, and nothing is lost. */
  if (status.st_size > JOURNAL_BYTES_MAX) return ftruncate(home->journal, 0);
  home->journal_bytes = status.st_size <= 0 ? 0 : (size_t)status.st_size;
  return 0;
}

/* Most calls bring what is new, and need none of it. */
static bool has_line(struct home *home, const char *line) {
  if (home->earlier == NULL && read_lines(home, home->journal_bytes) != 0) return false;
  return bsearch(&line, home->earlier, home->earlier_count, sizeof *home->earlier, by_text) != NULL;
}

bool journal_says_changed(struct home *home, const char *path, const struct stat *status) {
  char text[LINE_BYTES];
  if (home->changed_us == 0 || changed_us(status) <= home->changed_us) return false;
  return home->journal_bytes == 0 || write_line(path, status, text) == 0 || !has_line(home, text);
}

static void note(const struct home *home, const char *path, const struct stat *status) {
  char line[LINE_BYTES];
  size_t length = write_line(path, status, line);
  /* Without the line the next call may say that somebody else has changed it: nothing is lost by that. */
  if (length > 0) (void)write_whole(home->journal, line, length);
}

void journal_note(const struct home *home, const struct spot *spot, const struct stat *made) {
  char above[REQUEST_PATH_BYTES_MAX + 1];
  struct stat status;
  /* Another one is there, or its bytes are others: somebody came right behind us. */
  bool is_ours = made != NULL && fstatat(spot->parent, spot->name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                 status.st_ino == made->st_ino && status.st_dev == made->st_dev &&
                 (S_ISDIR(status.st_mode) || (status.st_size == made->st_size && status.st_mtim.tv_sec == made->st_mtim.tv_sec &&
                                              status.st_mtim.tv_nsec == made->st_mtim.tv_nsec));
  if (is_ours) note(home, spot->path, &status);
  snprintf(above, sizeof above, "%.*s", (int)(strlen(spot->path) - strlen(spot->name)), spot->path);
  if (above[0] == '\0' || fstat(spot->parent, &status) != 0) return;
  above[strlen(above) - 1] = '\0';
  note(home, above, &status);
}

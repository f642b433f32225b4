/*
 * Prints a directory's tree, one line for each file: what is compared between a sandbox and what another tool has unpacked.
 * `tree-lines ROOT`. Directories of the sandbox's own (/proc, /dev) are named and not entered.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { LINKS_MAX = 65536 };
static struct { dev_t dev; ino_t ino; char *path; } links[LINKS_MAX];
static size_t link_count;

/* The first path of the same file. */
static const char *first_of(const struct stat *status, const char *path) {
  for (size_t i = 0; i < link_count; i++) {
    if (links[i].ino == status->st_ino && links[i].dev == status->st_dev) return links[i].path;
  }
  if (status->st_nlink > 1 && link_count < LINKS_MAX) {
    links[link_count].dev = status->st_dev;
    links[link_count].ino = status->st_ino;
    links[link_count++].path = strdup(path);
  }
  return "";
}

/* FNV-1a. */
static uint64_t sum_of(const char *path) {
  uint64_t sum = 14695981039346656037ULL;
  unsigned char bytes[65536];
  int file = open(path, O_RDONLY | O_NOFOLLOW);
  for (ssize_t got; file >= 0 && (got = read(file, bytes, sizeof bytes)) > 0;) {
    for (ssize_t i = 0; i < got; i++) sum = (sum ^ bytes[i]) * 1099511628211ULL;
  }
  if (file >= 0) close(file);
  return sum;
}

static int by_text(const void *one, const void *other) { return strcmp(*(char *const *)one, *(char *const *)other); }

static void attributes(const char *path) {
  char names[4096];
  char *sorted[64];
  size_t count = 0;
  ssize_t length = llistxattr(path, names, sizeof names);
  for (char *name = names; length > 0 && name < names + length && count < 64; name += strlen(name) + 1) sorted[count++] = name;
  qsort(sorted, count, sizeof sorted[0], by_text);
  for (size_t i = 0; i < count; i++) {
    unsigned char value[1024];
    ssize_t size = lgetxattr(path, sorted[i], value, sizeof value);
    if (strncmp(sorted[i], "user.", 5) != 0 && strcmp(sorted[i], "security.capability") != 0) continue;
    if (strncmp(sorted[i], "user.umoci.", 11) == 0) continue;
    printf(" %s=", sorted[i]);
    for (ssize_t at = 0; at < size; at++) printf("%02x", value[at]);
  }
}

static void walk(const char *path, const char *shown) {
  struct dirent **entries;
  int count = scandir(path, &entries, NULL, NULL);
  char **names = calloc(count > 0 ? (size_t)count : 1, sizeof *names);
  for (int i = 0; i < count; i++) names[i] = entries[i]->d_name;
  if (count > 0) qsort(names, (size_t)count, sizeof names[0], by_text);
  for (int i = 0; i < count; i++) {
    char whole[4096];
    char own[4096];
    char target[4096] = "";
    struct stat status;
    if (strcmp(names[i], ".") == 0 || strcmp(names[i], "..") == 0) continue;
    snprintf(whole, sizeof whole, "%s/%s", path, names[i]);
    snprintf(own, sizeof own, "%s/%s", shown, names[i]);
    if (lstat(whole, &status) != 0) {
      printf("%s ?\n", own);
      continue;
    }
    if (S_ISLNK(status.st_mode) && readlink(whole, target, sizeof target - 1) < 0) target[0] = '?';
    int is_dir = S_ISDIR(status.st_mode);
    printf("%s %o %u:%u %lld %lld %016" PRIx64 " =%s >%s", own, status.st_mode, status.st_uid, status.st_gid,
           is_dir ? 0LL : (long long)status.st_size, is_dir ? 0LL : (long long)status.st_mtime,
           S_ISREG(status.st_mode) ? sum_of(whole) : 0, is_dir ? "" : first_of(&status, own), target);
    attributes(whole);
    printf("\n");
    if (is_dir && strcmp(own, "/proc") != 0 && strcmp(own, "/dev") != 0) walk(whole, own);
  }
}

int main(int argc, char **argv) {
  walk(argc > 1 ? argv[1] : "/", "");
  return 0;
}

/*
 * Changes directories at random and the same way for the same seed: `mutate SEED COUNT DIRECTORY…`. What it does to names
 * that lie in a lower layer and to those that don't is what an overlay has to keep apart.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

static unsigned long long state;
static char pool[4096][512];
static int pooled;

static unsigned next(unsigned below) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return (unsigned)(state >> 20) % below;
}

static int by_name(const void *one, const void *other) { return strcmp(one, other); }

static void collect(const char *directory, int depth) {
  DIR *entries = opendir(directory);
  if (entries == NULL || depth > 6) {
    if (entries != NULL) closedir(entries);
    return;
  }
  for (struct dirent *entry; (entry = readdir(entries)) != NULL && pooled < 4096;) {
    struct stat status;
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    char path[512];
    if (snprintf(path, sizeof path, "%s/%s", directory, entry->d_name) >= 400) continue;
    strcpy(pool[pooled++], path);
    if (lstat(path, &status) == 0 && S_ISDIR(status.st_mode)) collect(path, depth + 1);
  }
  closedir(entries);
}

/* `rm -rf` as it should be called, without the shell. */
static void remove_all(const char *path) {
  pid_t child = fork();
  if (child == 0) execl("/bin/rm", "rm", "-rf", path, (char *)NULL), _exit(1);
  waitpid(child, NULL, 0);
}

static void move(const char *from, const char *to) {
  pid_t child = fork();
  if (child == 0) execl("/bin/mv", "mv", "-f", from, to, (char *)NULL), _exit(1);
  waitpid(child, NULL, 0);
}

static void write_file(const char *path, unsigned bytes) {
  int file = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | (next(2) ? O_TRUNC : 0), 0644);
  for (unsigned i = 0; file >= 0 && i < bytes; i++) {
    unsigned char byte = (unsigned char)next(256);
    if (write(file, &byte, 1) != 1) break;
  }
  if (file >= 0) close(file);
}

static void write_mapped(const char *path) {
  struct stat status;
  int file = open(path, O_RDWR | O_NOFOLLOW);
  if (file >= 0 && fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
    char *mapped = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED) {
      mapped[next((unsigned)status.st_size)] ^= 0x55;
      munmap(mapped, (size_t)status.st_size);
    }
  }
  if (file >= 0) close(file);
}

static void make_tree(const char *path) {
  char below[640];
  mkdir(path, 0755);
  for (unsigned i = next(4); i > 0; i--) {
    snprintf(below, sizeof below, "%s/%c", path, 'a' + (char)next(6));
    if (next(3) == 0) mkdir(below, 0700);
    else write_file(below, next(300));
  }
}

static void mutate(const char *one, const char *other, const char *fresh) {
  char value[16];
  struct stat status;
  switch (next(15)) {
    case 0: case 1: write_file(one, next(3000)); break;
    case 2: write_file(fresh, next(3000)); break;
    case 3: remove_all(one); break;
    case 4: remove_all(one); make_tree(one); break;
    case 5: remove_all(one); write_file(one, next(200)); break;
    case 6: make_tree(fresh); break;
    case 7: chmod(one, 0400 | next(01000)); break;
    case 8: move(one, fresh); break;
    case 9: move(one, other); break;
    case 10: link(one, fresh); break;
    case 11: symlink(other, fresh); break;
    case 12:
      snprintf(value, sizeof value, "%u", next(1000));
      if (lstat(one, &status) == 0 && !S_ISLNK(status.st_mode)) setxattr(one, next(40) ? "user.a" : "user.b=c", value, strlen(value), 0);
      break;
    case 13: write_mapped(one); break;
    default: if (lstat(one, &status) == 0 && !S_ISLNK(status.st_mode)) chown(one, next(2000), next(2000));
  }
}

/* A file that stays mapped, and is written where no write is seen but by the page. */
static char *held;

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "hold") == 0) {
    int file = open(argv[2], O_RDWR | O_CREAT, 0644);
    if (file < 0 || ftruncate(file, 1 << 20) != 0) return 1;
    held = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (held == MAP_FAILED) return 1;
    for (unsigned i = 0;; i++, usleep(2000)) held[i % 4096] = (char)(i / 4096 + 1);
  }
  if (argc < 4) return 2;
  state = strtoull(argv[1], NULL, 10) * 0x9e3779b97f4a7c15ULL + 1;
  for (int left = atoi(argv[2]); left > 0; left--) {
    char fresh[640];
    pooled = 0;
    for (int i = 3; i < argc; i++) collect(argv[i], 0);
    qsort(pool, (size_t)pooled, sizeof pool[0], by_name);
    const char *home = argv[3 + next((unsigned)(argc - 3))];
    const char *one = pooled > 0 ? pool[next((unsigned)pooled)] : home;
    const char *other = pooled > 0 ? pool[next((unsigned)pooled)] : home;
    struct stat status;
    const char *in = lstat(other, &status) == 0 && S_ISDIR(status.st_mode) && next(2) ? other : home;
    snprintf(fresh, sizeof fresh, "%s/n%u", in, next(40));
    mutate(one, other, fresh);
  }
  return 0;
}

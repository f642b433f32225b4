/*
 * Measuring a tree: see tree.h.
 *
 * Depth first. The nearest ancestors stay open; farther ones are closed and found again through `..`, which is
 * believed only when device and inode are those left behind: a directory that was moved meanwhile ends the walk, and
 * the caller asks again.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "tree/tree.h"

enum {
  OPEN_LEVELS_MAX = 128,
  /* Directories cost at least an inode each, so an upper's limit is reached long before. 32 bytes per level. */
  LEVELS_MAX = 4 * 1024 * 1024,
};

struct level {
  DIR *entries; /* NULL where it was closed to save descriptors */
  long position;
  dev_t device;
  ino_t inode;
};

struct walk {
  struct level *levels;
  size_t depth;
  size_t room;
  uint64_t bytes;
  uint64_t lengths;
  uint64_t inode_shares; /* thousandths: a file with n names counts 1000/n at each */
  uint64_t missed;
};

static int push(struct walk *walk, int fd) {
  struct stat status;
  if (walk->depth == walk->room) {
    size_t room = walk->room == 0 ? 64 : walk->room * 2;
    struct level *grown = room > LEVELS_MAX ? NULL : realloc(walk->levels, room * sizeof *grown);
    if (grown == NULL) return -1;
    walk->levels = grown;
    walk->room = room;
  }
  if (fstat(fd, &status) != 0) return -1;
  DIR *entries = fdopendir(fd);
  if (entries == NULL) return -1;
  if (walk->depth >= OPEN_LEVELS_MAX) {
    struct level *far = &walk->levels[walk->depth - OPEN_LEVELS_MAX];
    if (far->entries != NULL) {
      far->position = telldir(far->entries);
      closedir(far->entries);
      far->entries = NULL;
    }
  }
  walk->levels[walk->depth++] =
      (struct level){.entries = entries, .device = status.st_dev, .inode = status.st_ino};
  return 0;
}

/* Back to the parent, opening it again where it was closed. */
static int pop(struct walk *walk) {
  struct level *left = &walk->levels[--walk->depth];
  int result = 0;
  if (walk->depth > 0 && walk->levels[walk->depth - 1].entries == NULL) {
    struct level *parent = &walk->levels[walk->depth - 1];
    struct stat status;
    cleanup_fd fd = openat(dirfd(left->entries), "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) != 0 || status.st_dev != parent->device || status.st_ino != parent->inode) {
      errno = EAGAIN;
      result = -1;
    } else if ((parent->entries = fdopendir(fd)) == NULL) {
      result = -1;
    } else {
      (void)take_fd(&fd);
      seekdir(parent->entries, parent->position);
    }
  }
  closedir(left->entries);
  return result;
}

static void count(struct walk *walk, const struct stat *status) {
  uint64_t names = S_ISDIR(status->st_mode) || status->st_nlink == 0 ? 1 : (uint64_t)status->st_nlink;
  walk->bytes += (uint64_t)status->st_blocks * 512 / names;
  /* A file is shorter than 2^63, so half the range before the addition is enough not to wrap around. */
  if (S_ISREG(status->st_mode) && walk->lengths <= UINT64_MAX / 2) walk->lengths += (uint64_t)status->st_size / names;
  walk->inode_shares += 1000 / names;
}

static int step(struct walk *walk) {
  struct level *top = &walk->levels[walk->depth - 1];
  struct dirent *entry = readdir(top->entries);
  if (entry == NULL) return pop(walk);
  if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) return 0;
  struct stat status;
  if (fstatat(dirfd(top->entries), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
    walk->missed++; /* Gone again, or under another name: it may never be counted. */
    return 0;
  }
  count(walk, &status);
  if (!S_ISDIR(status.st_mode)) return 0;
  cleanup_fd fd = openat(dirfd(top->entries), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) {
    walk->missed++; /* Gone or replaced, with everything below it. */
    return 0;
  }
  if (push(walk, fd) != 0) return -1;
  (void)take_fd(&fd);
  return 0;
}

int tree_measure(int directory, const struct tree_usage *max, struct tree_usage *usage, struct fault *fault) {
  struct walk walk = {0};
  struct stat status;
  cleanup_fd root = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (root < 0 || fstat(root, &status) != 0 || push(&walk, root) != 0) {
    return fault_set(fault, "internal", "can't walk a tree");
  }
  (void)take_fd(&root);
  count(&walk, &status);
  int result = 0;
  bool is_over = false;
  while (result == 0 && walk.depth > 0 && !is_over) {
    result = step(&walk);
    is_over = (max->bytes > 0 && walk.bytes > max->bytes) || (max->lengths > 0 && walk.lengths > max->lengths) ||
              (max->inodes > 0 && walk.inode_shares / 1000 > max->inodes);
  }
  int number = errno;
  while (walk.depth > 0) {
    DIR *entries = walk.levels[--walk.depth].entries;
    if (entries != NULL) closedir(entries);
  }
  free(walk.levels);
  *usage = (struct tree_usage){
      .bytes = walk.bytes, .lengths = walk.lengths, .inodes = (walk.inode_shares + 999) / 1000, .missed = walk.missed};
  errno = number;
  return result == 0 ? 0 : fault_set(fault, "internal", "can't walk a tree that changes");
}

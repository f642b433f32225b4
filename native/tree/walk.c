/*
 * Visiting every directory of a tree that nobody changes meanwhile: see tree.h.
 *
 * Directories are found again by their path, which fits as long as mksquashfs could pack it. What waits is bounded:
 * a hostile image could otherwise fill the memory with long names.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/file.h"
#include "tree/tree.h"

/* A million directories with paths of 200 bytes; a real layer has some ten thousand. */
enum { WAITING_BYTES_MAX = 256 * 1024 * 1024 };

struct waiting {
  struct waiting *next;
  size_t size;
  char path[];
};

struct walk {
  struct waiting *first;
  size_t bytes;
};

static int add(struct walk *walk, const char *parent, const char *name) {
  bool is_top = strcmp(parent, ".") == 0;
  size_t length = (is_top ? 0 : strlen(parent) + 1) + strlen(name);
  size_t size = sizeof(struct waiting) + length + 1;
  errno = length >= PATH_MAX ? ENAMETOOLONG : ENOMEM;
  struct waiting *added = length >= PATH_MAX || walk->bytes + size > WAITING_BYTES_MAX ? NULL : malloc(size);
  if (added == NULL) return -1;
  *added = (struct waiting){.next = walk->first, .size = size};
  snprintf(added->path, length + 1, "%s%s%s", is_top ? "" : parent, is_top ? "" : "/", name);
  walk->first = added;
  walk->bytes += size;
  return 0;
}

static int add_below(struct walk *walk, int directory, const char *path) {
  cleanup_fd again = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *entries = again < 0 ? NULL : fdopendir(again);
  if (entries == NULL) return -1;
  (void)take_fd(&again);
  int result = 0;
  for (struct dirent *entry; result == 0 && (entry = readdir(entries)) != NULL;) {
    struct stat status;
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    if (entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN) continue;
    result = fstatat(directory, entry->d_name, &status, AT_SYMLINK_NOFOLLOW);
    if (result == 0 && S_ISDIR(status.st_mode)) result = add(walk, path, entry->d_name);
  }
  int number = errno;
  closedir(entries);
  errno = number;
  return result;
}

int tree_each_directory(int root, const struct tree_visitor *visitor, struct fault *fault) {
  struct walk walk = {0};
  int result = add(&walk, ".", ".");
  while (result == 0 && walk.first != NULL) {
    struct waiting *at = walk.first;
    walk.first = at->next;
    walk.bytes -= at->size;
    cleanup_fd directory = open_beneath(root, at->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    result = directory < 0 ? -1 : visitor->visit(visitor->context, directory, at->path);
    if (result == 0) result = add_below(&walk, directory, at->path);
    free(at);
  }
  int number = errno;
  while (walk.first != NULL) {
    struct waiting *next = walk.first->next;
    free(walk.first);
    walk.first = next;
  }
  errno = number;
  return result == 0 ? 0 : fault_disk(fault, "layer_corrupt", "can't walk the layer");
}

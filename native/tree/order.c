/* Trees in the order of their paths: see order.h. */
#include "tree/order.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/file.h"

enum {
  /* As in walk.c. */
  NAMES_BYTES_MAX = 256 * 1024 * 1024,
  /* With names of one letter a path ends there. */
  LEVELS_MAX = PATH_MAX / 2 + 1,
};

struct level {
  char **names;
  size_t count;
  size_t next;
  size_t bytes;
  size_t path_length;
};

struct walk {
  struct tree_order *order;
  size_t depth;
  size_t bytes;
  int directory; /* the deepest level's, or -1: it is opened again */
  char path[PATH_MAX];
  struct level levels[LEVELS_MAX];
};

static int by_bytes(const void *one, const void *other) {
  return strcmp(*(char *const *)one, *(char *const *)other);
}

static int add_name(struct walk *walk, struct level *level, size_t *room, const char *name) {
  size_t size = strlen(name) + 1 + sizeof(char *);
  errno = ENOMEM;
  if (walk->bytes + level->bytes + size > NAMES_BYTES_MAX) return -1;
  if (level->count == *room) {
    size_t more = *room == 0 ? 64 : *room * 2;
    char **grown = realloc(level->names, more * sizeof *grown);
    if (grown == NULL) return -1;
    level->names = grown;
    *room = more;
  }
  char *copy = strdup(name);
  if (copy == NULL) return -1;
  level->names[level->count++] = copy;
  level->bytes += size;
  return 0;
}

static int list(struct walk *walk, struct level *level, int directory) {
  size_t room = 0;
  cleanup_fd again = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *entries = again < 0 ? NULL : fdopendir(again);
  if (entries == NULL) return -1;
  (void)take_fd(&again);
  int result = 0;
  while (result == 0) {
    errno = 0;
    const struct dirent *entry = readdir(entries);
    if (entry == NULL) {
      result = errno == 0 ? 0 : -1;
      break;
    }
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    result = add_name(walk, level, &room, entry->d_name);
  }
  int number = errno;
  closedir(entries);
  errno = number;
  if (result == 0 && level->count > 1) qsort(level->names, level->count, sizeof *level->names, by_bytes);
  return result;
}

static void free_level(struct walk *walk) {
  struct level *level = &walk->levels[--walk->depth];
  for (size_t i = 0; i < level->count; i++) free(level->names[i]);
  free(level->names);
  walk->bytes -= level->bytes;
}

/* Takes the directory over, which is the one at the walk's path. */
static int enter(struct walk *walk, int directory) {
  struct level *level = &walk->levels[walk->depth++];
  *level = (struct level){.path_length = strlen(walk->path)};
  int result = list(walk, level, directory);
  walk->bytes += level->bytes;
  if (walk->directory >= 0) close_fd(&walk->directory);
  walk->directory = directory;
  return result;
}

static void leave(struct walk *walk) {
  free_level(walk);
  close_fd(&walk->directory);
  walk->directory = -1;
  walk->path[walk->depth == 0 ? 0 : walk->levels[walk->depth - 1].path_length] = '\0';
}

static bool is_gone(int number) { return number == ENOENT || number == ENOTDIR || number == ELOOP; }

static int append(struct walk *walk, size_t length, const char *name) {
  size_t bytes = strlen(name);
  errno = ENAMETOOLONG;
  if (length + (length > 0) + bytes >= PATH_MAX) return -1;
  if (length > 0) walk->path[length++] = '/';
  memcpy(walk->path + length, name, bytes + 1);
  return 0;
}

static int look(struct walk *walk, const struct level *level, const char *name) {
  struct tree_place place = {.directory = walk->directory, .name = name, .path = walk->path};
  if (fstatat(walk->directory, name, &place.status, AT_SYMLINK_NOFOLLOW) != 0) {
    if (!is_gone(errno)) return -1;
    walk->order->missed++;
    return 0;
  }
  if (append(walk, level->path_length, name) != 0) return -1;
  int result = walk->order->visit(walk->order->context, &place);
  if (result == 0 && S_ISDIR(place.status.st_mode)) {
    int below = openat(walk->directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (below >= 0) return enter(walk, below);
    if (is_gone(errno)) walk->order->missed++;
    else result = -1;
  }
  walk->path[level->path_length] = '\0';
  return result;
}

static int step(struct walk *walk) {
  struct level *level = &walk->levels[walk->depth - 1];
  if (level->next == level->count) {
    leave(walk);
    return 0;
  }
  if (walk->directory < 0) {
    const char *path = walk->path[0] == '\0' ? "." : walk->path;
    walk->directory = open_beneath(walk->order->root, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (walk->directory < 0) {
      if (!is_gone(errno)) return -1;
      walk->order->missed += level->count - level->next;
      level->next = level->count;
      return 0;
    }
  }
  return look(walk, level, level->names[level->next++]);
}

int tree_in_order(struct tree_order *order) {
  struct walk *walk = calloc(1, sizeof *walk);
  if (walk == NULL) return -1;
  walk->order = order;
  walk->directory = -1;
  int root = openat(order->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  struct tree_place place = {.directory = order->root, .name = ".", .path = ""};
  int result = root < 0 ? -1 : fstat(root, &place.status);
  if (result == 0) result = order->visit(order->context, &place);
  if (result == 0) result = enter(walk, root);
  else close_fd(&root);
  while (result == 0 && walk->depth > 0) result = step(walk);
  int number = errno;
  while (walk->depth > 0) free_level(walk);
  close_fd(&walk->directory);
  free(walk);
  errno = number;
  return result;
}

/* Walking a tree: see walk.h. */
#include "init/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/descriptor.h"

enum {
  LEVELS_OPEN = 16,
  ENTRIES_BYTES = 32768,
  /* Names of the directories on the way down: some millions in one. Who has more gets an error, not the sandbox's memory. */
  NAMES_BYTES_MAX = 67108864,
};

struct level {
  int fd; /* -1: closed, for others */
  dev_t device;
  ino_t inode;
  size_t path_length; /* of its own path in `path` */
  size_t first;       /* its names, in `names` */
  size_t next;
  size_t end;
  size_t text_used; /* before its names */
  struct stat stat;
  const char *after; /* the rest of the visitor's, below this directory; NULL: passed */
};

struct linux_dirent64 {
  uint64_t d_ino;
  int64_t d_off;
  unsigned short d_reclen;
  unsigned char d_type;
  char d_name[];
};

static struct level levels[GUEST_WALK_DEPTH_MAX + 1];
static size_t depth; /* levels in use */
static char path[GUEST_PATH_BYTES_MAX + NAME_MAX + 2];
static char *text; /* all names, each with its NUL */
static size_t text_used, text_room;
static uint32_t *names; /* where each begins in `text` */
static size_t names_used, names_room;

int open_below(int root, const char *relative, int flags, unsigned long long resolve) {
  struct open_how how = {.flags = (unsigned long long)flags | O_CLOEXEC, .resolve = RESOLVE_BENEATH | resolve};
  return (int)syscall(SYS_openat2, root, relative, &how, sizeof how);
}

static int by_bytes(const void *left, const void *right) {
  return strcmp(text + *(const uint32_t *)left, text + *(const uint32_t *)right);
}

static void *grown(void *memory, size_t *room, size_t size) {
  size_t wanted = *room == 0 ? 4096 : *room * 2;
  void *larger = realloc(memory, wanted * size);
  if (larger != NULL) *room = wanted;
  return larger;
}

static int keep_name(const char *name) {
  size_t length = strlen(name) + 1;
  while (text_room - text_used < length) {
    if (text_room >= NAMES_BYTES_MAX) {
      errno = EFBIG;
      return -1;
    }
    char *larger = grown(text, &text_room, 1);
    if (larger == NULL) return -1;
    text = larger;
  }
  if (names_used == names_room) {
    uint32_t *larger = grown(names, &names_room, sizeof *names);
    if (larger == NULL) return -1;
    names = larger;
  }
  memcpy(text + text_used, name, length);
  names[names_used++] = (uint32_t)text_used;
  text_used += length;
  return 0;
}

static int read_names(int fd) {
  static _Alignas(8) uint8_t entries[ENTRIES_BYTES];
  size_t first = names_used;
  for (;;) {
    long got = syscall(SYS_getdents64, fd, entries, sizeof entries);
    if (got < 0) return -1;
    if (got == 0) break;
    for (long at = 0; at < got;) {
      const struct linux_dirent64 *entry = (const struct linux_dirent64 *)(const void *)(entries + at);
      at += entry->d_reclen;
      if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
      if (keep_name(entry->d_name) != 0) return -1;
    }
  }
  if (names_used > first) qsort(names + first, names_used - first, sizeof *names, by_bytes);
  return 0;
}

/* Takes `fd` as the new present directory, whose path stands in `path`. */
static int enter(int fd, size_t path_length, const char *after) {
  struct level *level = &levels[depth];
  *level = (struct level){
      .fd = fd, .path_length = path_length, .first = names_used, .next = names_used, .text_used = text_used, .after = after};
  depth++;
  if (fstat(fd, &level->stat) != 0 || read_names(fd) != 0) return -1;
  level->device = level->stat.st_dev;
  level->inode = level->stat.st_ino;
  level->end = names_used;
  /* The root stays open: it is the caller's, and what the others are opened from. */
  if (depth > LEVELS_OPEN + 1) close_fd(&levels[depth - 1 - LEVELS_OPEN].fd);
  return 0;
}

static void drop_level(void) {
  struct level *level = &levels[--depth];
  if (depth > 0) close_fd(&level->fd);
  names_used = level->first;
  text_used = level->text_used;
}

/* The directory of a level, open. */
static int directory_of(struct level *level) {
  if (level->fd >= 0) return level->fd;
  char kept = path[level->path_length];
  path[level->path_length] = '\0';
  cleanup_fd fd = open_below(levels[0].fd, path, O_RDONLY | O_DIRECTORY, RESOLVE_NO_SYMLINKS);
  path[level->path_length] = kept;
  struct stat stat;
  if (fd < 0 || fstat(fd, &stat) != 0) return -1;
  if (stat.st_dev != level->device || stat.st_ino != level->inode) {
    errno = ESTALE; /* Somebody moves the tree about. */
    return -1;
  }
  level->fd = take_fd(&fd);
  return level->fd;
}

/* Puts the name behind the level's path. */
static size_t join(const struct level *level, const char *name) {
  size_t length = level->path_length;
  if (length > 0) path[length++] = '/';
  size_t name_length = strlen(name);
  memcpy(path + length, name, name_length + 1);
  return length + name_length;
}

/* What `after` says of this name. */
enum place { PLACE_BEFORE, PLACE_ON_THE_WAY, PLACE_BEHIND };

static enum place place_of(const char *name, const char *after, const char **rest) {
  *rest = NULL;
  if (after == NULL) return PLACE_BEHIND;
  size_t length = strcspn(after, "/");
  size_t name_length = strlen(name);
  int order = memcmp(name, after, name_length < length ? name_length : length);
  if (order == 0) order = name_length < length ? -1 : name_length > length;
  if (order != 0) return order < 0 ? PLACE_BEFORE : PLACE_BEHIND;
  if (after[length] == '/' && after[length + 1] != '\0') *rest = after + length + 1;
  return PLACE_ON_THE_WAY;
}

static bool is_gone(int number) {
  return number == ENOENT || number == ENOTDIR || number == ELOOP;
}

/* Goes into the directory that was just visited, where that is wanted. Returns 0 or -1 with errno. */
static int descend(const struct walk_visitor *visitor, const struct walk_entry *entry, const char *after) {
  if (!S_ISDIR(entry->stat.st_mode) || depth >= visitor->depth_max || entry->stat.st_dev != levels[0].device) return 0;
  if (visitor->enters != NULL && !visitor->enters(visitor->owner, entry)) return 0;
  int fd = openat(entry->directory, entry->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return is_gone(errno) || (!visitor->is_strict && (errno == EACCES || errno == EPERM)) ? 0 : -1;
  return enter(fd, strlen(path), after);
}

/* The next name of the present directory. False: the walk is over, with `*result`. */
static bool go_on(const struct walk_visitor *visitor, int *result) {
  struct level *level = &levels[depth - 1];
  const char *name = text + names[level->next++];
  const char *rest;
  enum place place = place_of(name, level->after, &rest);
  if (place == PLACE_BEFORE) return true;
  level->after = NULL;
  struct walk_entry entry = {.path = path, .name = name, .depth = (unsigned)depth};
  if (level->path_length + strlen(name) + 2 > GUEST_PATH_BYTES_MAX) {
    errno = ENAMETOOLONG;
    *result = visitor->is_strict ? -1 : 0;
    return !visitor->is_strict;
  }
  *result = -1;
  entry.directory = directory_of(level);
  if (entry.directory < 0) return false;
  (void)join(level, name);
  if (fstatat(entry.directory, name, &entry.stat, AT_SYMLINK_NOFOLLOW) != 0) return is_gone(errno) || !visitor->is_strict;
  if (place == PLACE_BEHIND && !visitor->visit(visitor->owner, &entry)) {
    *result = 0;
    return false;
  }
  return descend(visitor, &entry, rest) == 0;
}

/* Up one level. False: the walk is over, with `*result`. */
static bool go_up(const struct walk_visitor *visitor, int *result) {
  struct walk_entry entry = {.path = path, .stat = levels[depth - 1].stat};
  path[levels[depth - 1].path_length] = '\0';
  drop_level();
  entry.depth = (unsigned)depth;
  *result = 0;
  if (depth == 0) return false;
  if (visitor->leave == NULL) return true;
  struct level *above = &levels[depth - 1];
  entry.name = path + above->path_length + (above->path_length > 0);
  entry.directory = directory_of(above);
  if (entry.directory < 0) *result = -1;
  return entry.directory >= 0 && visitor->leave(visitor->owner, &entry);
}

int walk_tree(int root, const struct walk_visitor *visitor) {
  int result = 0;
  depth = names_used = text_used = 0;
  path[0] = '\0';
  if (enter(root, 0, visitor->after) == 0) {
    for (bool goes_on = true; goes_on;) {
      const struct level *level = &levels[depth - 1];
      goes_on = level->next < level->end ? go_on(visitor, &result) : go_up(visitor, &result);
    }
  } else {
    result = -1;
  }
  int failure = errno;
  while (depth > 0) drop_level();
  errno = failure;
  return result;
}

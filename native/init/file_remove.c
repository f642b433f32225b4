/*
 * Removing a tree of any depth and width with a bounded number of descriptors and without recursion.
 *
 * The newest LEVELS_OPEN directories on the way down stay open, each with the entries read but not yet removed.
 * Higher up only device and inode are kept; the way back is "..", which must lead to exactly the directory that was left: a tree
 * that somebody moves meanwhile ends the operation instead of leading it elsewhere. Symlinks are removed, never
 * followed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "init/file.h"
#include "init/request.h"

enum {
  LEVELS_OPEN = 32,
  /* 64 MiB of levels: far below what any file system allows in practice. */
  LEVELS_MAX = 4194304,
  /* Somebody who fills a directory as fast as it is emptied must not keep this running for ever. Passes are also
   * needed where removing shifts entries past a position already read (tmpfs before 6.6). */
  PASSES_MAX = 1000,
  ENTRIES_BYTES = 4096,
};

struct level {
  dev_t device;
  ino_t inode;
};

struct open_level {
  int fd; /* -1: not open */
  unsigned passes;
  long entries_at;
  long entries_end;
  char name[NAME_MAX + 1]; /* in the directory above; empty where it was not kept */
  _Alignas(8) uint8_t entries[ENTRIES_BYTES];
};

struct walk {
  struct level *levels;
  size_t levels_mapped;
  size_t depth; /* levels in use; the last is the present directory */
  struct open_level open[LEVELS_OPEN]; /* by depth modulo LEVELS_OPEN */
};

struct linux_dirent64 {
  uint64_t d_ino;
  int64_t d_off;
  unsigned short d_reclen;
  unsigned char d_type;
  char d_name[];
};

static struct open_level *level_at(struct walk *walk, size_t depth) {
  return &walk->open[depth % LEVELS_OPEN];
}

static struct open_level *present(struct walk *walk) {
  return level_at(walk, walk->depth - 1);
}

static int grow(struct walk *walk) {
  if (walk->depth < walk->levels_mapped) return 0;
  if (walk->levels_mapped == LEVELS_MAX) {
    errno = ENAMETOOLONG;
    return -1;
  }
  size_t wanted = walk->levels_mapped == 0 ? 4096 : walk->levels_mapped * 4;
  void *memory = walk->levels == NULL
                     ? mmap(NULL, wanted * sizeof(struct level), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                     : mremap(walk->levels, walk->levels_mapped * sizeof(struct level), wanted * sizeof(struct level),
                              MREMAP_MAYMOVE);
  if (memory == MAP_FAILED) return -1;
  walk->levels = memory;
  walk->levels_mapped = wanted;
  return 0;
}

static void open_slot(struct open_level *slot, int fd) {
  slot->fd = fd;
  slot->passes = 0;
  slot->entries_at = slot->entries_end = 0;
  slot->name[0] = '\0';
}

/* Takes `fd` as the new present directory. */
static int enter(struct walk *walk, int fd, const char *name) {
  struct stat stat;
  if (fstat(fd, &stat) != 0 || grow(walk) != 0) {
    close_fd(&fd);
    return -1;
  }
  struct open_level *slot = level_at(walk, walk->depth);
  if (walk->depth >= LEVELS_OPEN) close_fd(&slot->fd); /* The oldest kept open makes room. */
  walk->levels[walk->depth++] = (struct level){.device = stat.st_dev, .inode = stat.st_ino};
  open_slot(slot, fd);
  strncpy(slot->name, name, NAME_MAX);
  slot->name[NAME_MAX] = '\0';
  return 0;
}

/* The directory above the present one, open again. */
static int reopen_above(struct walk *walk, int below) {
  struct open_level *above = level_at(walk, walk->depth - 2);
  int fd = openat(below, "..", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return -1;
  struct stat stat;
  const struct level *expected = &walk->levels[walk->depth - 2];
  if (fstat(fd, &stat) != 0 || stat.st_dev != expected->device || stat.st_ino != expected->inode) {
    close_fd(&fd);
    errno = ESTALE;
    return -1;
  }
  open_slot(above, fd); /* What was read before is gone or will be met again. */
  return 0;
}

static int read_again(struct open_level *here) {
  here->entries_at = here->entries_end = 0;
  if (++here->passes < PASSES_MAX) return lseek(here->fd, 0, SEEK_SET) < 0 ? -1 : 0;
  errno = ENOTEMPTY;
  return -1;
}

/* Up one level, and removes the directory left. Without its name it is met again: the one above is read anew. */
static int leave(struct walk *walk) {
  struct open_level *left = present(walk);
  struct open_level *above = level_at(walk, walk->depth - 2);
  if (above->fd < 0 && reopen_above(walk, left->fd) != 0) return -1;
  close_fd(&left->fd);
  walk->depth--;
  if (left->name[0] == '\0' || unlinkat(above->fd, left->name, AT_REMOVEDIR) == 0 || errno == ENOENT) return 0;
  return errno == ENOTEMPTY || errno == EEXIST ? read_again(above) : -1;
}

enum step { STEP_NEXT, STEP_DESCENDED, STEP_FAILED };

static enum step remove_entry(struct walk *walk, const char *name) {
  struct open_level *here = present(walk);
  if (unlinkat(here->fd, name, 0) == 0 || errno == ENOENT) return STEP_NEXT;
  if (errno != EISDIR && errno != EPERM) return STEP_FAILED;
  int unlink_failure = errno;
  if (unlinkat(here->fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT) return STEP_NEXT;
  if (errno == ENOTDIR) errno = unlink_failure; /* A file, and the refusal was meant. */
  if (errno != ENOTEMPTY && errno != EEXIST) return STEP_FAILED;
  int fd = openat(here->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return STEP_FAILED;
  return enter(walk, fd, name) == 0 ? STEP_DESCENDED : STEP_FAILED;
}

/* Goes on in the present directory. STEP_NEXT: it has no more entries. */
static enum step remove_entries(struct walk *walk) {
  struct open_level *here = present(walk);
  for (;;) {
    if (here->entries_at == here->entries_end) {
      here->entries_at = 0;
      here->entries_end = syscall(SYS_getdents64, here->fd, here->entries, sizeof here->entries);
      if (here->entries_end < 0) return STEP_FAILED;
      if (here->entries_end == 0) return STEP_NEXT;
    }
    const struct linux_dirent64 *entry = (const struct linux_dirent64 *)(const void *)(here->entries + here->entries_at);
    here->entries_at += entry->d_reclen;
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    enum step step = remove_entry(walk, entry->d_name);
    if (step != STEP_NEXT) return step;
  }
}

/* Empties the directory `fd`, which it takes. Returns 0 or -1 with errno. */
static int empty_tree(int fd) {
  static struct walk walk;
  for (int i = 0; i < LEVELS_OPEN; i++) walk.open[i].fd = -1;
  if (enter(&walk, fd, "") != 0) return -1;
  for (;;) {
    enum step step = remove_entries(&walk);
    if (step == STEP_FAILED) return -1;
    if (step == STEP_DESCENDED) continue;
    if (walk.depth == 1) {
      close_fd(&present(&walk)->fd);
      walk.depth = 0;
      return 0;
    }
    if (leave(&walk) != 0) return -1;
  }
}

/* 0 or an errno. */
static int remove_tree(const char *path) {
  for (unsigned pass = 0; pass < PASSES_MAX; pass++) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || empty_tree(fd) != 0) return errno;
    if (rmdir(path) == 0) return 0;
    if (errno != ENOTEMPTY && errno != EEXIST) return errno;
  }
  return ENOTEMPTY;
}

void file_remove(int socket) {
  uint64_t recursive = 0;
  if (!request_integer(FIELD_RECURSIVE, 0, 1, &recursive)) {
    answer_bad_request(socket, "recursive is out of range");
    return;
  }
  const char *path = request_path(FIELD_PATH);
  int failure = unlink(path) == 0 ? 0 : errno;
  if (failure == EISDIR || failure == EPERM) {
    int unlink_failure = failure;
    failure = rmdir(path) == 0 ? 0 : errno;
    if (failure == ENOTDIR) failure = unlink_failure;
    if (recursive == 1 && (failure == ENOTEMPTY || failure == EEXIST)) failure = remove_tree(path);
  }
  if (failure != 0) answer_error(socket, failure, "remove");
  else answer_ok(socket);
}

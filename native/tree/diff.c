/*
 * What two stacks of layers show differently: see tree.h.
 *
 * Both are looked at as the kernel's overlay would show them, name by name, in the order of their paths. Only names that
 * stand in a layer which one side has and the other has not can differ, so a layer that both lie on is never listed.
 * The topmost layer may be a sandbox's upper that is being written: what is gone again when it is looked at is not there,
 * nothing is opened but directories and regular files, and no link is followed.
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

enum {
  /* As in walk.c. */
  WAITING_BYTES_MAX = 256 * 1024 * 1024,
  /* Longer files of the same length are the same where their times are: reading them would take seconds. */
  COMPARED_BYTES_MAX = 64 * 1024 * 1024,
  COMPARED_AT_ONCE = 65536,
  NOT_OPENED = -1,
  NOT_THERE = -2,
};

/* A name that was listed and not looked at yet, with the layers that show its directory. */
struct waiting {
  struct waiting *next;
  size_t size;
  uint64_t from;
  uint64_t to;
  char path[];
};

struct walk {
  const struct tree_diff *diff;
  struct waiting *first;
  size_t bytes;
  char parent[PATH_MAX]; /* whose directories are open */
  int opened[TREE_DIFF_LAYERS_MAX];
};

struct node {
  bool is_there;
  size_t layer; /* the topmost that has it */
  struct stat status;
  uint64_t directories; /* the layers that are merged in it */
};

static uint64_t bit(size_t layer) { return UINT64_C(1) << layer; }

static void close_parent(struct walk *walk) {
  for (size_t i = 0; i < walk->diff->count; i++) {
    if (walk->opened[i] >= 0) close(walk->opened[i]);
    walk->opened[i] = NOT_OPENED;
  }
}

static const char *enter_parent(struct walk *walk, const char *path) {
  const char *slash = strrchr(path, '/');
  size_t length = slash == NULL ? 0 : (size_t)(slash - path);
  if (strlen(walk->parent) != length || strncmp(walk->parent, path, length) != 0) {
    close_parent(walk);
    memcpy(walk->parent, path, length);
    walk->parent[length] = '\0';
  }
  return slash == NULL ? path : slash + 1;
}

/* The entered directory in a layer, or -1: a live one may be gone by now. */
static int directory_in(struct walk *walk, size_t layer) {
  int *opened = &walk->opened[layer];
  if (*opened == NOT_OPENED) {
    const char *path = walk->parent[0] == '\0' ? "." : walk->parent;
    *opened = open_beneath(walk->diff->roots[layer], path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (*opened < 0) *opened = NOT_THERE;
  }
  return *opened < 0 ? -1 : *opened;
}

/* Whether the layers below have a part in this directory; true also where it is no directory any more. */
static bool hides_below(int parent, const char *name, bool is_foreign) {
  cleanup_fd directory = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  return directory < 0 || tree_hides_below(directory, is_foreign);
}

static void look(struct walk *walk, const struct tree_side *side, uint64_t shown, const char *name, struct node *node) {
  *node = (struct node){0};
  for (size_t i = 0; i < side->count; i++) {
    size_t layer = side->layers[i];
    bool is_foreign = (walk->diff->foreign & bit(layer)) != 0;
    struct stat status;
    int parent = (shown & bit(layer)) == 0 ? -1 : directory_in(walk, layer);
    if (parent < 0) continue;
    if (fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
      if (is_foreign && tree_is_deleted(parent, name)) return;
      continue;
    }
    bool is_whiteout = S_ISCHR(status.st_mode) && status.st_rdev == 0;
    if (is_whiteout || (node->is_there && !S_ISDIR(status.st_mode))) return;
    if (!node->is_there) {
      node->is_there = true;
      node->layer = layer;
      node->status = status;
    }
    if (!S_ISDIR(status.st_mode)) return;
    node->directories |= bit(layer);
    if (i + 1 < side->count && hides_below(parent, name, is_foreign)) return;
  }
}

static int open_file(struct walk *walk, const struct node *node, const char *name) {
  int parent = directory_in(walk, node->layer);
  struct stat status;
  int file = parent < 0 ? -1 : openat(parent, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (file >= 0 && (fstat(file, &status) != 0 || !S_ISREG(status.st_mode))) close_fd(&file);
  return file;
}

/* What can't be read, or grows meanwhile, is not the same. */
static bool has_same_bytes(struct walk *walk, const struct node *one, const struct node *other, const char *name) {
  static char bytes[2][COMPARED_AT_ONCE];
  if (one->status.st_size > COMPARED_BYTES_MAX) return one->status.st_mtim.tv_sec == other->status.st_mtim.tv_sec;
  cleanup_fd first = open_file(walk, one, name);
  cleanup_fd second = open_file(walk, other, name);
  for (off_t at = 0; first >= 0 && second >= 0 && at <= COMPARED_BYTES_MAX;) {
    ssize_t got = pread(first, bytes[0], COMPARED_AT_ONCE, at);
    if (got < 0 || pread(second, bytes[1], COMPARED_AT_ONCE, at) != got) return false;
    if (got == 0) return true;
    if (memcmp(bytes[0], bytes[1], (size_t)got) != 0) return false;
    at += got;
  }
  return false;
}

static bool has_same_target(struct walk *walk, const struct node *one, const struct node *other, const char *name) {
  char targets[2][PATH_MAX];
  ssize_t first = readlinkat(directory_in(walk, one->layer), name, targets[0], PATH_MAX);
  ssize_t second = readlinkat(directory_in(walk, other->layer), name, targets[1], PATH_MAX);
  return first >= 0 && first == second && memcmp(targets[0], targets[1], (size_t)first) == 0;
}

/* By what a program sees of it, without its times. */
static bool is_same(struct walk *walk, const struct node *one, const struct node *other, const char *name) {
  const struct stat *was = &one->status;
  const struct stat *is = &other->status;
  if (was->st_mode != is->st_mode || was->st_uid != is->st_uid || was->st_gid != is->st_gid) return false;
  if (S_ISDIR(is->st_mode) || one->layer == other->layer) return true;
  if (S_ISLNK(is->st_mode)) return has_same_target(walk, one, other, name);
  if (S_ISREG(is->st_mode)) return was->st_size == is->st_size && has_same_bytes(walk, one, other, name);
  return was->st_rdev == is->st_rdev;
}

/* ---- listing ---- */

struct names {
  char **list;
  size_t count;
  size_t room;
  size_t bytes;
};

static int add_name(struct walk *walk, struct names *names, const char *name) {
  size_t size = strlen(name) + 1 + sizeof(char *);
  errno = ENOMEM;
  if (walk->bytes + names->bytes + size > WAITING_BYTES_MAX) return -1;
  if (names->count == names->room) {
    size_t room = names->room == 0 ? 64 : names->room * 2;
    char **grown = realloc(names->list, room * sizeof *grown);
    if (grown == NULL) return -1;
    names->list = grown;
    names->room = room;
  }
  char *copy = strdup(name);
  if (copy == NULL) return -1;
  names->list[names->count++] = copy;
  names->bytes += size;
  return 0;
}

static int list_names(struct walk *walk, size_t layer, const char *path, struct names *names) {
  cleanup_fd directory =
      open_beneath(walk->diff->roots[layer], path[0] == '\0' ? "." : path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  DIR *entries = directory < 0 ? NULL : fdopendir(directory);
  if (entries == NULL) return directory >= 0 || errno == ENAMETOOLONG ? -1 : 0; /* Gone again. */
  (void)take_fd(&directory);
  bool is_foreign = (walk->diff->foreign & bit(layer)) != 0;
  int result = 0;
  for (struct dirent *entry; result == 0 && (entry = readdir(entries)) != NULL;) {
    const char *name = is_foreign ? tree_meant_name(entry->d_name) : entry->d_name;
    if (name == NULL || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) continue;
    result = add_name(walk, names, name);
  }
  int number = errno;
  closedir(entries);
  errno = number;
  return result;
}

static int by_bytes(const void *one, const void *other) {
  return strcmp(*(char *const *)one, *(char *const *)other);
}

static int push(struct walk *walk, const struct waiting *parent, const char *name, const uint64_t shown[2]) {
  size_t above = strlen(parent->path);
  size_t length = above + (above > 0) + strlen(name);
  size_t size = sizeof(struct waiting) + length + 1;
  if (length >= PATH_MAX && walk->diff->skips_long) return 0;
  errno = length >= PATH_MAX ? ENAMETOOLONG : ENOMEM;
  struct waiting *added = length >= PATH_MAX || walk->bytes + size > WAITING_BYTES_MAX ? NULL : malloc(size);
  if (added == NULL) return -1;
  *added = (struct waiting){.next = walk->first, .size = size, .from = shown[0], .to = shown[1]};
  snprintf(added->path, length + 1, "%s%s%s", parent->path, above > 0 ? "/" : "", name);
  walk->first = added;
  walk->bytes += size;
  return 0;
}

/* What may differ in a directory waits, its first name first. */
static int descend(struct walk *walk, const struct waiting *at, const uint64_t shown[2]) {
  struct names names = {0};
  int result = 0;
  for (size_t i = 0; result == 0 && i < walk->diff->count; i++) {
    if (((shown[0] ^ shown[1]) & bit(i)) != 0) result = list_names(walk, i, at->path, &names);
  }
  if (names.count > 0) qsort(names.list, names.count, sizeof *names.list, by_bytes);
  for (size_t left = names.count; left > 0; left--) {
    bool is_again = left < names.count && strcmp(names.list[left - 1], names.list[left]) == 0;
    if (result == 0 && !is_again) result = push(walk, at, names.list[left - 1], shown);
  }
  int number = errno;
  for (size_t i = 0; i < names.count; i++) free(names.list[i]);
  free(names.list);
  errno = number;
  return result;
}

/* ---- the walk ---- */

int tree_compare_paths(const char *one, const char *other) {
  while (*one != '\0' && *one == *other) one++, other++;
  int first = *one == '/' ? 1 : (unsigned char)*one + (*one != '\0');
  int second = *other == '/' ? 1 : (unsigned char)*other + (*other != '\0');
  return first - second;
}

static bool is_above(const char *directory, const char *path) {
  size_t length = strlen(directory);
  return strncmp(directory, path, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

static int visit(struct walk *walk, const struct waiting *at) {
  const struct tree_diff *diff = walk->diff;
  bool is_told = tree_compare_paths(at->path, diff->after) <= 0;
  if (is_told && !is_above(at->path, diff->after)) return 0;
  const char *name = enter_parent(walk, at->path);
  struct node from;
  struct node to;
  look(walk, &diff->from, at->from, name, &from);
  look(walk, &diff->to, at->to, name, &to);
  if (!to.is_there && !from.is_there) return 0;
  bool is_changed = !to.is_there || !from.is_there || !is_same(walk, &from, &to, name);
  if (is_changed && !is_told) {
    const struct tree_difference found = {
        .path = at->path,
        .change = !from.is_there ? TREE_ADDED : !to.is_there ? TREE_REMOVED : TREE_CHANGED,
        .status = to.is_there ? &to.status : &from.status};
    if (diff->report(diff->context, &found) != 0) return -1;
  }
  const uint64_t shown[2] = {from.directories, to.directories};
  /* Of a removed directory its name says all. */
  return to.directories == 0 ? 0 : descend(walk, at, shown);
}

static uint64_t all_of(const struct tree_side *side) {
  uint64_t shown = 0;
  for (size_t i = 0; i < side->count; i++) shown |= bit(side->layers[i]);
  return shown;
}

int tree_diff(const struct tree_diff *diff, char last[PATH_MAX], struct fault *fault) {
  const uint64_t shown[2] = {all_of(&diff->from), all_of(&diff->to)};
  struct walk *walk = calloc(1, sizeof *walk);
  struct waiting *root = calloc(1, sizeof *root + 1);
  int result = walk == NULL || root == NULL ? -1 : 0;
  if (result == 0) {
    walk->diff = diff;
    for (size_t i = 0; i < TREE_DIFF_LAYERS_MAX; i++) walk->opened[i] = NOT_OPENED;
    result = descend(walk, root, shown);
  }
  last[0] = '\0';
  while (result == 0 && walk->first != NULL && (last[0] == '\0' || diff->goes_on(diff->context))) {
    struct waiting *at = walk->first;
    walk->first = at->next;
    walk->bytes -= at->size;
    result = visit(walk, at);
    if (tree_compare_paths(at->path, diff->after) >= 0) snprintf(last, PATH_MAX, "%s", at->path);
    free(at);
  }
  int number = errno;
  if (walk != NULL && walk->first == NULL) last[0] = '\0';
  while (walk != NULL && walk->first != NULL) {
    struct waiting *next = walk->first->next;
    free(walk->first);
    walk->first = next;
  }
  if (walk != NULL) close_parent(walk);
  free(root);
  free(walk);
  errno = number;
  if (result == 0) return 0;
  return number == ENAMETOOLONG ? fault_set(fault, "snapshot_path_too_long", "a path is longer than %d bytes", PATH_MAX)
                                : fault_set(fault, "launch_failed", "can't compare the layers");
}

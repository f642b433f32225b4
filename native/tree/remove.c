/*
 * Removing a tree: see tree.h.
 *
 * The tree is first renamed into `trash/`, which makes it vanish at once and whole. There it is flattened: a directory
 * that is not empty is renamed next to its parent and taken up again later, so depth never matters.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/clock.h"
#include "common/file.h"
#include "tree/tree.h"

/* Ten million inodes take some minutes; a tree that still grows after this has a living writer. */
enum { REMOVE_MS_MAX = 30 * 60 * 1000 };

enum { PIECE_NAME_BYTES = 96 };

struct removal {
  int trash;  /* the directory that holds the pieces */
  char prefix[64]; /* of their names: empty where the directory is this removal's own */
  unsigned long long pieces;
  int64_t deadline_ms;
};

static void piece_name(const struct removal *removal, unsigned long long piece, char name[PIECE_NAME_BYTES]) {
  snprintf(name, PIECE_NAME_BYTES, "%s%llu", removal->prefix, piece);
}

static void detach_mounts(int parent, const char *name) {
  char below[300];
  (void)umount2(fd_path(parent, name).text, MNT_DETACH | UMOUNT_NOFOLLOW);
  /* A tmpfs upper is mounted in our namespace, at `sandboxes/<id>/uppers/<generation>`. */
  snprintf(below, sizeof below, strcmp(name, "uppers") == 0 ? "%s" : "%s/uppers", name);
  cleanup_fd uppers = open_beneath(parent, below, O_RDONLY | O_DIRECTORY);
  DIR *entries = uppers < 0 ? NULL : fdopendir(uppers);
  if (entries == NULL) return;
  int directory = take_fd(&uppers);
  for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
    if (entry->d_name[0] == '.') continue;
    (void)umount2(fd_path(directory, entry->d_name).text, MNT_DETACH | UMOUNT_NOFOLLOW);
  }
  closedir(entries);
}

/* A tmpfs that is still mounted there goes first: it is one of our uppers, in our mount namespace only. */
static int remove_directory(int parent, const char *name) {
  if (unlinkat(parent, name, AT_REMOVEDIR) == 0) return 0;
  if (errno != EBUSY || umount2(fd_path(parent, name).text, MNT_DETACH | UMOUNT_NOFOLLOW) != 0) return -1;
  return unlinkat(parent, name, AT_REMOVEDIR);
}

/* Empties one directory; directories in it that are not empty become pieces of their own. What has gone meanwhile another removal has: a
   new daemon empties the trash while the last one's request is still at work. */
static int empty_directory(struct removal *removal, const char *name) {
  int fd = openat(removal->trash, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0 && errno == EACCES && fchmodat(removal->trash, name, 0700, 0) == 0) {
    fd = openat(removal->trash, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  }
  DIR *entries = fd < 0 ? NULL : fdopendir(fd);
  if (entries == NULL) return errno == ENOENT ? 0 : -1;
  int result = 0;
  for (struct dirent *entry; result == 0 && (entry = readdir(entries)) != NULL;) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    bool is_directory = entry->d_type == DT_DIR; /* Else the answer of unlink tells. */
    if (!is_directory && (unlinkat(fd, entry->d_name, 0) == 0 || errno == ENOENT)) continue;
    if (!is_directory && errno != EISDIR && errno != EPERM) result = -1;
    else if (remove_directory(fd, entry->d_name) == 0 || errno == ENOENT) continue;
    else if (errno != ENOTEMPTY && errno != EEXIST) result = -1;
    else {
      char piece[PIECE_NAME_BYTES];
      piece_name(removal, removal->pieces++, piece);
      result = renameat(fd, entry->d_name, removal->trash, piece) == 0 || errno == ENOENT ? 0 : -1;
    }
  }
  int number = errno;
  closedir(entries);
  errno = number;
  return result;
}

/* Takes pieces by number until none is left. */
static int remove_pieces(struct removal *removal) {
  for (unsigned long long piece = 0; piece < removal->pieces; piece++) {
    char name[PIECE_NAME_BYTES];
    piece_name(removal, piece, name);
    while (unlinkat(removal->trash, name, 0) != 0 && unlinkat(removal->trash, name, AT_REMOVEDIR) != 0) {
      if (errno == ENOENT) break;
      if (errno != ENOTEMPTY && errno != EEXIST) return -1;
      if (now_ms() > removal->deadline_ms) {
        errno = ETIMEDOUT;
        return -1;
      }
      if (empty_directory(removal, name) != 0) return -1;
    }
  }
  return 0;
}

/* A directory for the pieces of one removal. A full disk has no block for one: then they lie in `trash/` itself, under
   names of their own. (Not always: a directory that a million pieces have made long stays long.) */
static int open_trash(int data_fd, struct removal *removal, char *own, size_t size) {
  snprintf(own, size, "trash/remove-%d-%lld", getpid(), (long long)now_us());
  if (make_directories(data_fd, own, false) != 0) {
    if (errno != ENOSPC && errno != EDQUOT) return -1;
    snprintf(removal->prefix, sizeof removal->prefix, "%s.", own + strlen("trash/"));
    snprintf(own, size, "trash");
  }
  removal->trash = open_beneath(data_fd, own, O_RDONLY | O_DIRECTORY);
  return removal->trash < 0 ? -1 : 0;
}

enum { MOVES_MAX = 100 };

/* Into a directory of our own as the first piece. Before that has something in it, whoever empties the trash may take it away. */
static int move_to_trash(int data_fd, int parent, const char *name, struct removal *removal, char *own, size_t size) {
  for (int i = 0; i < MOVES_MAX; i++) {
    char first[PIECE_NAME_BYTES];
    close_fd(&removal->trash);
    removal->prefix[0] = '\0';
    if (open_trash(data_fd, removal, own, size) != 0) {
      if (errno == ENOENT) continue;
      return -1;
    }
    piece_name(removal, 0, first);
    if (renameat(parent, name, removal->trash, first) == 0) return 0;
    if (errno != ENOENT) return -1;
    struct stat status;
    if (fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT) return 0;
  }
  errno = EBUSY;
  return -1;
}

int tree_remove(int data_fd, const char *path, struct fault *fault) {
  const char *name;
  cleanup_fd parent = open_parent(data_fd, path, &name);
  if (parent < 0) return errno == ENOENT ? 0 : fault_set(fault, "internal", "can't open the parent of \"%s\"", path);
  detach_mounts(parent, name);
  /* A file or an empty directory needs no detour. */
  if (unlinkat(parent, name, 0) == 0 || unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT) return 0;
  struct removal removal = {.trash = -1, .pieces = 1, .deadline_ms = now_ms() + REMOVE_MS_MAX};
  char own[64];
  bool is_moved = move_to_trash(data_fd, parent, name, &removal, own, sizeof own) == 0;
  bool is_removed = is_moved && remove_pieces(&removal) == 0;
  close_fd(&removal.trash);
  if (!is_moved) return fault_disk(fault, "internal", "can't move \"%s\" to the trash", path);
  if (!is_removed) return fault_set(fault, "internal", "can't remove all of \"%s\"", path);
  if (removal.prefix[0] == '\0') (void)unlinkat(data_fd, own, AT_REMOVEDIR);
  return 0;
}

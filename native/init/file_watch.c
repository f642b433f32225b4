/*
 * Watching: inotify on one directory or file, or on a directory and all below it, bounded by
 * GUEST_WATCHED_DIRECTORIES_MAX.
 *
 * `ok` says that everything is watched; each event then carries the change and the path relative to what is
 * watched. Events that the kernel had to drop, and a tree with too many directories, end the watch with an error:
 * a client that missed something must know.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "init/file.h"
#include "init/request.h"
#include "init/scratch.h"

/* Paths deeper than this are not watched, as they can't be opened by name either. */
struct watched {
  int descriptor;
  char *path; /* relative to the root, "" for the root itself */
};

struct tree {
  int inotify;
  int root_length;
  bool is_recursive;
  unsigned count;
  struct watched *directories;
  char root[GUEST_PATH_BYTES_MAX];
};

enum { WATCHED_EVENTS = IN_CREATE | IN_DELETE | IN_MODIFY | IN_ATTRIB | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF |
                        IN_MOVE_SELF | IN_EXCL_UNLINK };

static struct watched *find(struct tree *tree, int descriptor) {
  for (unsigned i = 0; i < tree->count; i++) {
    if (tree->directories[i].descriptor == descriptor) return &tree->directories[i];
  }
  return NULL;
}

static void forget(struct tree *tree, struct watched *watched) {
  free(watched->path);
  *watched = tree->directories[--tree->count];
}

/* Watches the root or a directory below it. Returns 0, also where it is gone already, or -1 with errno. */
static int add_directory(struct tree *tree, const char *relative) {
  char path[2 * GUEST_PATH_BYTES_MAX];
  (void)snprintf(path, sizeof path, "%s%s%s", tree->root, relative[0] != '\0' ? "/" : "", relative);
  uint32_t flags = (uint32_t)WATCHED_EVENTS | (relative[0] != '\0' ? IN_ONLYDIR | IN_DONT_FOLLOW : 0);
  int descriptor = inotify_add_watch(tree->inotify, path, flags);
  if (descriptor < 0) {
    bool is_gone = errno == ENOENT || errno == ENOTDIR || errno == EACCES || errno == ENAMETOOLONG || errno == ELOOP;
    return relative[0] != '\0' && is_gone ? 0 : -1;
  }
  char *copy = strdup(relative);
  if (copy == NULL) return -1;
  struct watched *known = find(tree, descriptor);
  if (known != NULL) { /* Moved within the tree: the newer path is the true one. */
    free(known->path);
    known->path = copy;
    return 0;
  }
  if (tree->count == GUEST_WATCHED_DIRECTORIES_MAX) {
    free(copy);
    errno = ENOSPC;
    return -1;
  }
  tree->directories[tree->count++] = (struct watched){.descriptor = descriptor, .path = copy};
  return 0;
}

/* `relative` and `name` as one path; false where it is too long to be opened. */
static bool join_path(char joined[GUEST_PATH_BYTES_MAX], const char *relative, const char *name) {
  int length = snprintf(joined, GUEST_PATH_BYTES_MAX, "%s%s%s", relative, relative[0] != '\0' ? "/" : "", name);
  return length > 0 && length < GUEST_PATH_BYTES_MAX;
}

static int add_children(struct tree *tree, const char *relative) {
  char path[2 * GUEST_PATH_BYTES_MAX];
  (void)snprintf(path, sizeof path, "%s/%s", tree->root, relative);
  DIR *directory = opendir(path);
  if (directory == NULL) return 0; /* Gone, or not a directory, or closed to this user: nothing to watch. */
  int result = 0;
  for (struct dirent *entry; result == 0 && (entry = readdir(directory)) != NULL;) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    if (entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN) continue;
    char joined[GUEST_PATH_BYTES_MAX];
    if (join_path(joined, relative, entry->d_name)) result = add_directory(tree, joined);
  }
  (void)closedir(directory);
  return result;
}

/* A directory and, level by level, all below it: what is added lands behind in the table and is reached later. */
static int add_tree(struct tree *tree, const char *relative) {
  unsigned next = tree->count;
  if (add_directory(tree, relative) != 0) return -1;
  for (; tree->is_recursive && next < tree->count; next++) {
    char present[GUEST_PATH_BYTES_MAX];
    (void)snprintf(present, sizeof present, "%s", tree->directories[next].path);
    if (add_children(tree, present) != 0) return -1;
  }
  return 0;
}

static const char *change_of(uint32_t mask) {
  if ((mask & IN_CREATE) != 0) return "created";
  if ((mask & (IN_DELETE | IN_DELETE_SELF)) != 0) return "removed";
  if ((mask & (IN_MOVED_FROM | IN_MOVED_TO | IN_MOVE_SELF)) != 0) return "moved";
  return "changed";
}

static void send_event(int socket, const char *change, const char *path) {
  uint8_t buffer[GUEST_PATH_BYTES_MAX + 64];
  struct frame_writer writer = frame_writer_on(buffer, sizeof buffer);
  frame_begin(&writer, FRAME_EVENT);
  frame_text(&writer, FIELD_CHANGE, change);
  frame_text(&writer, FIELD_PATH, path);
  answer_writer(socket, &writer);
}

/* False: the watch is over and answered. */
static bool tell(struct tree *tree, int socket, const struct inotify_event *event) {
  if ((event->mask & IN_Q_OVERFLOW) != 0) {
    answer_error(socket, EOVERFLOW, "events were lost");
    return false;
  }
  struct watched *watched = find(tree, event->wd);
  if (watched == NULL) return true; /* Of a directory forgotten already. */
  if ((event->mask & IN_IGNORED) != 0) {
    bool is_root = watched->path[0] == '\0';
    forget(tree, watched);
    if (is_root) answer_end(socket);
    return !is_root;
  }
  /* A directory below tells of its own end through the one above. */
  if ((event->mask & (IN_DELETE_SELF | IN_MOVE_SELF)) != 0 && watched->path[0] != '\0') return true;
  char path[GUEST_PATH_BYTES_MAX];
  if (!join_path(path, watched->path, event->len > 0 ? event->name : "") && event->len > 0) return true;
  send_event(socket, change_of(event->mask), event->len > 0 ? path : watched->path);
  bool is_new_directory = (event->mask & IN_ISDIR) != 0 && (event->mask & (IN_CREATE | IN_MOVED_TO)) != 0;
  if (is_new_directory && tree->is_recursive && add_tree(tree, path) != 0) {
    answer_error(socket, errno, "watch");
    return false;
  }
  return true;
}

/* The kernel gives a user so many instances. Those of watches that were given up a moment ago come back when their
   processes have ended, which may take a busy machine a while: this is a process of its own and can wait for it. */
static int open_inotify(void) {
  enum { TRIES = 400, PAUSE_MS = 5 };
  for (int tries = 0;; tries++) {
    int inotify = inotify_init1(IN_CLOEXEC);
    if (inotify >= 0 || errno != EMFILE || tries == TRIES) return inotify;
    (void)poll(NULL, 0, PAUSE_MS);
  }
}

void file_watch(int socket) {
  uint64_t recursive = 0;
  if (!request_integer(FIELD_RECURSIVE, 0, 1, &recursive)) {
    answer_bad_request(socket, "recursive is out of range");
    return;
  }
  static struct tree tree;
  tree.is_recursive = recursive == 1;
  (void)snprintf(tree.root, sizeof tree.root, "%s", request_path(FIELD_PATH));
  tree.inotify = open_inotify();
  tree.directories = calloc(GUEST_WATCHED_DIRECTORIES_MAX, sizeof *tree.directories);
  if (tree.inotify < 0 || tree.directories == NULL || add_tree(&tree, "") != 0) {
    answer_error(socket, errno, "watch");
    return;
  }
  answer_ok(socket);
  for (;;) {
    ssize_t got = read(tree.inotify, scratch, sizeof scratch);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      answer_error(socket, errno, "watch");
      return;
    }
    for (ssize_t at = 0; at < got;) {
      const struct inotify_event *event = (const struct inotify_event *)(const void *)(scratch + at);
      at += (ssize_t)(sizeof *event + event->len);
      if (!tell(&tree, socket, event)) return;
    }
  }
}

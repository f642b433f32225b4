/* What is watched, and who is told of it: see watcher.h. Works in the watcher's process alone. */
#ifndef SQUASH_INIT_WATCHES_H
#define SQUASH_INIT_WATCHES_H
#include <stdbool.h>
#include <sys/types.h>

#include "common/frames.gen.h"

struct watch_request {
  uid_t uid; /* as whom directories are looked at */
  gid_t gid;
  bool is_recursive;
  char path[GUEST_PATH_BYTES_MAX]; /* of what is watched; what is below is found by it */
};

/* `inotify` -1: every watch is refused with `failure`, an errno. */
void watches_start(int inotify, int failure);
/* Takes both descriptors; `root` is open on what is watched. `ok` says that everything is watched; each event then carries the change and the path relative to
 * what is watched, empty for itself. */
void watches_add(int socket, int root, const struct watch_request *request);
unsigned watches_count(void);

#endif

/* Changing who this process is, and what it may open: the small steps that `enter` and the launcher share. */
#ifndef SQUASH_LAUNCH_BECOME_H
#define SQUASH_LAUNCH_BECOME_H
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "common/fault.h"

/* Id 0 of the user namespace just made or joined, with no supplementary group of the host. */
int become_inner_root(struct fault *fault);
/* An id of the daemon's namespace without any capability; stays killable with its parent. */
int become_inner_id(uid_t id, struct fault *fault);
/* Soft limit of open files to the hard one: a daemon holds one connection per running command. */
void raise_open_files(void);
/* As root, before anything else: the hard limit as well. A relay holds two descriptors per connection. */
void raise_open_files_limit(void);
/*
 * As root, around making the daemon's namespace: what its maker may have of queued signals and message queues at that
 * moment is what all sandboxes have together, and a few would take it all. Each has a share of its own (starter.c), and
 * the daemon what its starter had. A root that may not raise limits leaves them: then they hold for all together.
 */
struct counted_limits {
  struct rlimit signals, queues;
};
int lift_counted_limits(struct counted_limits *before);
int restore_counted_limits(const struct counted_limits *before);
/* A program found like execvp finds it, and its directory; NULL where there is none. `out` has PATH_MAX bytes. */
const char *program_path(const char *program, char *out);
const char *program_directory(const char *program, char *out);
/* SQUASH_IDS=single */

#endif

/*
 * Workers: forked children that run one slow verb each and answer its client themselves. They see the launcher's
 * tables as they were at the fork and change nothing in them.
 */
#ifndef SQUASH_LAUNCH_WORKER_H
#define SQUASH_LAUNCH_WORKER_H
#include "launch/connection.h"

/* At once; others wait. Walks and image tools are bound by disk and processors, not by waiting. Those that may take minutes leave the others
   workers, so that sandboxes start, end and get mounts meanwhile. */
enum { WORKERS_MAX = 8, LONG_WORKERS_MAX = 5 };

struct worker {
  struct worker *next;
  pid_t pid;
  bool is_counted;
  bool is_long;
  uint64_t packed_instance; /* the sandbox that it may have frozen, or 0 */
};

void worker_run(struct launcher *launcher, struct connection *connection);
void worker_child_ended(struct launcher *launcher, pid_t pid, int status);
/* Takes a child of another part into the table, so that it is known and reaped. */
bool worker_adopt(struct launcher *launcher, pid_t pid);
bool worker_is_known(const struct launcher *launcher, pid_t pid);

/* For a forked child: closes what belongs to other clients, so that they see their connections end. */
void child_forget(const struct launcher *launcher, int kept);

#endif

/*
 * The resident launcher's state: one thread, one epoll loop, and tables that only it changes.
 *
 * Nothing here blocks: what takes longer than some system calls is done by a forked child (a sandbox's starter, or a
 * worker that answers its client itself).
 */
#ifndef SQUASH_LAUNCH_LAUNCHER_H
#define SQUASH_LAUNCH_LAUNCHER_H
#include <stdbool.h>
#include <stdint.h>

#include "launch/cgroup.h"

struct launcher;
struct sandbox;
struct connection;
struct worker;
struct egress;
struct dial;
struct dial_request;

/* Something the loop waits for. The owner embeds it; `ready` may free the owner. */
struct source {
  int fd;
  int epoll_fd; /* set by source_add */
  void (*ready)(struct launcher *launcher, struct source *source);
  void *owner; /* where it is not embedded in one place */
};

/* What lower files say to higher ones, which they do not know. resident.c knows both and fills it in. */
struct ports {
  /* A connection's request is whole. The connection may be gone afterwards. */
  void (*request_came)(struct launcher *launcher, struct connection *connection);
  /* The egress process is attached, asks for a connection, is gone or replaced. */
  void (*egress_came)(struct launcher *launcher);
  void (*dial_came)(struct launcher *launcher, const struct dial_request *request);
  void (*egress_went)(struct launcher *launcher);
};

struct launcher {
  const struct ports *ports;
  const char *data;
  int data_fd;
  int run_fd;
  int sockets_fd; /* g/ below run */
  int helper_fd;  /* to the privileged helper; -1 where the launcher was not started by root */
  struct source helper_end; /* the same descriptor, to hear when nobody is left at its other end */
  bool is_without_helper;   /* all of it was killed */
  struct source helper_look; /* where it answers whether it still does; fd 0: it was not asked */
  unsigned helper_silences;  /* looks in a row that it did not answer */
  int64_t helper_look_ms;    /* when helper_seat.c looks at it again */
  int64_t hung_ms;           /* who answers nothing for so long is ended */
  int init_fd;    /* squash-init, sealed */
  int vmm_fd;     /* squash-vmm, sealed */
  int seccomp_fd;
  int tool_seccomp_fd;
  int epoll_fd;
  bool is_single;
  const char *single_reason;
  bool has_own_ids;         /* each sandbox gets a range of its own (ranges.h) */
  bool maps_tmpfs;          /* also where its upper is a tmpfs */
  char shared_reason[192];  /* why not; "" where it does */
  const char *bwrap; /* absolute paths found at start; NULL where missing */
  const char *mksquashfs;
  const char *unsquashfs;
  const char *fuse_overlayfs;
  bool overlays_by_fuse;
  struct cgroup_setup cgroups;
  struct source listener;
  struct source child_signals;
  struct sandbox *sandboxes;
  struct connection *connections;
  struct worker *workers;
  unsigned connection_count;
  unsigned worker_count;
  struct egress *egress; /* the channel of the egress process, or NULL */
  struct dial *dials;
  unsigned dial_count;
  int64_t relays_due_ms; /* when relays.c looks at all sandboxes again; 0: nothing is to be done */
  /* What a new image may take before room.c has looked at it; UINT64_MAX: all of it. */
  uint64_t image_share;
  int64_t spares_due_ms;  /* when spares.c may make one; 0: none is to be made */
  int64_t spares_wait_ms; /* after the last that failed */
  bool is_ending;
};

/* Waits for input on `source->fd`. Returns 0 or -1. */
int source_add(struct launcher *launcher, struct source *source);
/* The same for EPOLLIN and EPOLLOUT, also for one that is waited for already. */
int source_wait(struct launcher *launcher, struct source *source, unsigned events);
/* Takes it out of the loop and leaves it open. */
void source_leave(struct source *source);
/* Takes it out of the loop and closes it. Closing alone is not enough: a forked child still has the descriptor, and
   the loop would go on reporting events for an owner that is gone. */
void source_close(struct source *source);

/* Id in the daemon's namespace that is root in sandboxes without a range of their own, and what root's files have on disk. */
static inline unsigned sandbox_root_id(const struct launcher *launcher) { return launcher->is_single ? 0 : 1; }

#endif

/*
 * The launcher's table of sandboxes and the life of one: (spare →) starting → running → ending → gone.
 *
 * A sandbox stays in the table until nothing of it is left: its first process and its starter are reaped, its
 * control groups removed, its socket and record unlinked. Who waits for a stop is answered then.
 */
#ifndef SQUASH_LAUNCH_SANDBOX_H
#define SQUASH_LAUNCH_SANDBOX_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "launch/cgroup.h"
#include "common/file.h"
#include "common/fault.h"
#include "launch/launcher.h"
#include "launch/network.h"
#include "launch/request.h"
#include "tree/tree.h"

/* More than any one machine runs; each costs some hundred bytes here. */
enum { SANDBOXES_MAX = 10000 };

enum sandbox_state { SANDBOX_SPARE, SANDBOX_STARTING, SANDBOX_RUNNING, SANDBOX_ENDING };

/* Where the limit of open files is low one relay can't hold all connections of a sandbox: then the next one joins. */
enum { RELAYS_OF_SANDBOX_MAX = 8 };

/* A relay of a sandbox, or its empty place. */
struct relay_seat {
  struct sandbox *sandbox;
  pid_t pid;             /* 0: none runs */
  struct source channel; /* to the relay; -1: gone, or going */
  uint64_t generation;   /* the upper half of its connections' numbers */
  int64_t begun_ms;
  int64_t control_at_ms; /* next try to reach the egress process; 0: none needed */
  int64_t control_wait_ms;
  struct dial *handover_first; /* wait for room in the channel */
  struct dial *handover_last;
};

/* The sandbox's way out, kept by relays.c. */
struct network_seat {
  struct source listeners[LISTENERS_MAX]; /* polled here while the first relay does not run */
  unsigned listener_count;
  uint64_t generation; /* counts relays */
  int64_t again_ms;    /* how long to wait after the next early death */
  int64_t poll_at_ms;  /* when the listeners are polled again after a relay died; 0: nothing is to be done */
  unsigned dial_count;
  struct relay_seat relays[RELAYS_OF_SANDBOX_MAX];
  char warning[192]; /* why there is no network; "" where there is one */
};

/* Of an image upper (room.c), at the last look. */
struct image_room {
  uint64_t image_bytes; /* 0: nobody has looked yet */
  uint64_t used_bytes;
  uint64_t free_bytes; /* of its file system */
  uint64_t open_bytes; /* what of that is not withheld */
  bool has_grown;
  bool is_withheld;
  bool is_short; /* it was said that it can hardly grow */
};

struct sandbox {
  struct sandbox *next;
  enum sandbox_state state;
  uint64_t instance;
  char name[SANDBOX_NAME_BYTES_MAX + 1];
  char group[CGROUP_NAME_BYTES];
  unsigned root_id; /* of its root in the daemon's namespace (ranges.h) */
  bool is_box;
  bool is_vmm; /* its PID 1 is squash-vmm */
  bool traces_paths;
  bool allows_nesting;
  unsigned user; /* of a box, as the host counts: the daemon's own id */
  unsigned group_id;
  pid_t starter; /* our child that makes it; 0 when reaped */
  pid_t supplier; /* our child that gathers what comes from outside; 0 when reaped */
  pid_t pid;     /* PID 1 of the sandbox; 0 before it is known and after it is reaped */
  pid_t overlay_pid; /* fuse-overlayfs of this sandbox, or 0; ends by itself when the sandbox's mounts go */
  pid_t gate_pid; /* the gate of its netlink sockets, or 0; ends by itself when the sandbox's processes have ended */
  bool was_known; /* PID 1 was reported once */
  bool is_frozen;
  bool ends_for_good; /* its upper goes, so nobody waits for its mounts to be taken down */
  pid_t packer; /* the worker that has it frozen, or 0 */
  pid_t freezer; /* our child that makes it stand still for a client, or 0 */
  int64_t deadline_ms; /* of the start, or of the next try to remove the control groups */
  struct source control; /* questions and words of the starter and the first process */
  int supply_fd;         /* to the first process, for what comes from outside; -1 when that is on its way */
  struct source guest;   /* first connection to PID 1 */
  struct network_seat network;
  struct fault fault;    /* why the start failed */
  char error_text[768];
  size_t error_used;
  /* The upper, for what is measured and packed while the sandbox runs. */
  enum upper_kind upper_kind;
  char upper[REQUEST_PATH_BYTES_MAX + 1];
  int upper_mount_fd; /* the image's mount, else -1 */
  int mounts_fd; /* of one that ends for good: its mounts (remains.c), else -1 */
  uint64_t upper_bytes_max;
  uint64_t upper_inodes_max;
  struct image_room room;
  bool has_upper_errors; /* of an image upper (upper_errors.c) */
  int64_t errors_look_at_ms;
  /* Of a directory upper (watchdog.c): what the last walk that can be believed found, and how full the file system
     was then; the latest walk, believed or not. */
  struct tree_usage watched;
  struct tree_usage free_when_walked;
  int64_t walked_at_ms;
  bool is_walked;
  pid_t still_walker; /* the walk that holds the sandbox at a stand-still, or 0 */
  unsigned doubtful_walks; /* in a row */
  unsigned kills_in_a_row; /* without a walk between them that found the upper within its limit */
  uint64_t upper_kills; /* how often its commands were killed for the upper's limit */
};

struct sandbox *sandbox_by_name(struct launcher *launcher, const char *name);
struct sandbox *sandbox_by_instance(struct launcher *launcher, uint64_t instance);

/* Tells every watching connection. */
void sandbox_announce(struct launcher *launcher, const struct sandbox *sandbox, const char *change);

#endif

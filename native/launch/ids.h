/*
 * Which ids of the host the daemon's user namespace gets, and writing the map.
 *
 * Range mode: inside id 0 is the daemon, 1 … 65536 are the sandboxes' ids 0 … 65535, so that no process of a
 * sandbox has an id of the daemon. Single-id mode: there is only id 0, which both use; what still separates them
 * is the sandbox's own user namespace (no capability reaches out of it), pid and mount namespace.
 */
#ifndef SQUASH_LAUNCH_IDS_H
#define SQUASH_LAUNCH_IDS_H
#include <stdbool.h>
#include <sys/types.h>

#include "common/fault.h"

enum {
  /* What a sandbox sees: 65,536 ids, as every distribution expects (nobody is 65534). */
  SANDBOX_IDS = 65536,
  /* Root's range. Outside what shadow (100000 … 600100000), systemd (524288 … 1879048191, and 0x7FFE0000 up
     for `foreign`), podman and docker hand out. */
  ROOT_RANGE_FIRST = 0x70000000,
  ROOT_RANGE_IDS = SANDBOX_IDS + 1,
  /* Behind it a range for each sandbox (ranges.h), as many as fit below systemd's `foreign`. */
  OWN_RANGES_FIRST = 0x70020000,
  OWN_RANGES = 4092,
  /* What relays run as, in the daemon's namespace. Inside sandboxes it is 65535, the one id that programs keep away
     from (16-bit -1); it owns no file and no namespace. The gateway of SSH has it as well, and can signal nobody. */
  RELAY_ID = SANDBOX_IDS,
};

/* The host's id behind one of the daemon's namespace, where root started Squash. The ranges follow each other inside. */
static inline uid_t ids_on_host(unsigned inside) {
  return inside < ROOT_RANGE_IDS ? ROOT_RANGE_FIRST + inside : OWN_RANGES_FIRST + (inside - ROOT_RANGE_IDS);
}

/* Whether a sandbox's own range begins with this id of the host. */
static inline bool ids_begin_own_range(uid_t first) {
  return first >= OWN_RANGES_FIRST && (first - OWN_RANGES_FIRST) % SANDBOX_IDS == 0 &&
         (first - OWN_RANGES_FIRST) / SANDBOX_IDS < OWN_RANGES;
}

/*
 * Whether we are the host's root and the daemon is to have ids of its own. `SQUASH_IDS=own` asks root to be treated like any other
 * user: the daemon then has root's id and, behind its user namespace, none of root's rights. Boxes of root need it.
 */
bool is_root_of_range(void);
/* The id of the daemon, as the host counts. */
uid_t ids_daemon_user(void);
/* Whether the environment asks for one id. */
bool ids_want_single(void);

/* A user namespace with this map for users and groups and nobody in it: what an id-mapped mount is described by. Returns a
   descriptor or -1. */
int ids_namespace(const char *map);

/*
 * Writes the maps of `target`'s new user namespace from its parent namespace. `is_single` says what was asked
 * for and then what was done: an ordinary user without newuidmap or subordinate ids falls back to one id.
 * `why` gets the reason of the fallback, for the log.
 */
int ids_write_maps(pid_t target, bool *is_single, char *why, size_t why_size, struct fault *fault);

/* The caller's first subordinate range of at least SANDBOX_IDS in `file` ("/etc/subuid"); 0 where none. */
unsigned long ids_subordinate(const char *file, uid_t uid);

#endif

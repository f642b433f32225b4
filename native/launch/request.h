/*
 * A request to the launcher, parsed once into a value that can't be wrong: known fields only, none repeated but
 * `lower`, `against` and `mount`, every name and path checked. The verbs take it as it is.
 */
#ifndef SQUASH_LAUNCH_REQUEST_H
#define SQUASH_LAUNCH_REQUEST_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/frame.h"
#include "common/fault.h"

enum {
  SANDBOX_NAME_BYTES_MAX = 64, /* as in contract/src/ids.ts */
  /* overlayfs takes 500; a stack of 32 modules and 24 snapshots needs 56. */
  LOWERS_MAX = 500,
  /* /etc/hosts and /etc/resolv.conf are given in a pipe, which holds 64 KiB before somebody reads. */
  ETC_FILE_BYTES_MAX = 32768,
  /* Volumes are 16 at most (limits.ts), the rest are places of a host root. */
  MOUNTS_MAX = 256,
  HIDDEN_MAX = 64,
  PATHS_MAX = 256,
};

enum upper_kind { UPPER_DIRECTORY, UPPER_PROJECT, UPPER_IMAGE, UPPER_TMPFS };

/* What a host root is made of (places.h). */
enum place_kind { PLACE_NONE, PLACE_BIND, PLACE_OVERLAY, PLACE_PRIVATE, PLACE_WHITEOUT, PLACE_DENY, PLACE_FILE, PLACE_LINK, PLACE_SOCKET, PLACE_DEVICE };

/* Where devices lie, outside and in the box, as paths are written here. */
#define DEVICES "dev/"

/* A volume, a directory of the host or a place of a host root, as a sandbox is to see it. */
struct mount_wish {
  enum place_kind place; /* NONE: a volume or a directory of the host */
  bool is_writable;
  bool is_host;         /* else a volume, which lies in the data directory as an upper does */
  enum upper_kind kind; /* of a volume */
  const char *identity; /* of what is the host's: the device and inode that were judged; of PRIVATE: whose it is */
  const char *source;   /* below the data directory that of a volume and of FILE; else the host's, without its first slash */
  const char *target;   /* below the sandbox's root */
  const char *own;      /* of a place in a root of layers: where the sandbox's own part of it lies (places.h); else NULL */
  const char *hidden;   /* of a directory of the host: names in it that are seen empty, one behind the other */
  size_t hidden_count;
};

struct request {
  uint8_t type;
  char *arena; /* owns every string below */
  const char *name;
  const char *hostname;
  const char *lowers[LOWERS_MAX];
  size_t lower_count;
  const char *against[LOWERS_MAX];
  size_t against_count;
  const char *upper;
  enum upper_kind upper_kind;
  bool is_for_good; /* of a stop: nothing will be started on the upper again */
  bool makes_upper; /* of a start: the sandbox is new. Else a missing upper is an error, not an empty sandbox. */
  struct mount_wish mounts[MOUNTS_MAX];
  size_t mount_count;
  bool is_reserved; /* of an image: its room is set aside */
  const char *path;
  const char *paths[PATHS_MAX]; /* of an apply */
  size_t path_count;
  const char *target;
  const char *known; /* an index: image_change.h */
  const char *index; /* where to write one */
  const char *after; /* a path that a sandbox chose: it is compared, never opened */
  const char *hosts;
  const char *resolv_conf;
  uint64_t instance;
  uint64_t bytes_max;
  uint64_t inodes_max;
  uint64_t memory_bytes_max;
  uint64_t cpu_milli;
  uint64_t pids_max;
  uint64_t shm_bytes_max;
  uint64_t open_files_max;
  uint64_t pid;
  uint64_t changed_us; /* of an apply: what the host has changed later is left; 0: nothing is */
  bool takes_outside;  /* links that lead out of the directory */
  bool takes_held;     /* what git obeys */
  bool is_vmm; /* of a start: PID 1 is squash-vmm, and files of the data directory may be attached */
  unsigned vmm_devices; /* of a VMM: a set (device_tree.h) */
  bool is_box; /* its root is the host's, and its user the one whom the daemon belongs to */
  bool traces_paths; /* of a box: squash-init notes which paths its commands are refused */
  bool allows_nesting; /* of a box: its programs may make namespaces of their own */
  unsigned user; /* of a box, as the host counts */
  unsigned group;
  int member; /* set by the launcher: a pidfd of the sandbox's first process */
  int client; /* set by the worker that runs it: who is answered */
};

int request_parse(struct request *request, uint8_t type, uint8_t *payload, size_t length, struct fault *fault);
void request_free(struct request *request);
const char *upper_kind_name(enum upper_kind kind);

#endif

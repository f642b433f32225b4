/*
 * Landlock: which files a process may open, and what it may speak to, said once by the process itself and inherited by all
 * that it starts. What is not named is refused; what was open before stays open. A process that is held so can make no
 * mounts, so the launcher and the privileged helper can't be.
 *
 * The kernel says by a number how much it can hold (1: Linux 5.13, 7: 6.15). What it can't is left out.
 */
#ifndef SQUASH_LAUNCH_LANDLOCK_H
#define SQUASH_LAUNCH_LANDLOCK_H
#include <stdbool.h>
#include <stdint.h>

#include "common/fault.h"

/* What may be done with a file, or with everything below a directory. */
enum landlock_access {
  LANDLOCK_READ = 1,
  LANDLOCK_EXECUTE = 2, /* by execve; the C library's loader maps what it can read */
  LANDLOCK_WRITE = 4,   /* and make, rename, remove: files, directories, sockets, links; no device nodes */
  LANDLOCK_SOCKETS = 8, /* make sockets, remove files */
  LANDLOCK_DEVICE = 16, /* read, write, ioctl */
};

/* What it may not speak to. */
enum landlock_refusal {
  LANDLOCK_NO_LISTENING = 1, /* on TCP ports */
  LANDLOCK_NO_SIGNALS = 2,   /* to processes that are not held by the same rules */
  LANDLOCK_NO_ABSTRACT = 4,  /* sockets without a file, of processes that are not */
};

enum {
  LANDLOCK_ABI_FILES = 1,
  LANDLOCK_ABI_RENAMES = 2, /* before it every rename from one directory to another is refused */
};

/* 0 where the kernel has none. */
int landlock_abi(void);

/* Rules that are being collected. Returns -1 with the fault where the kernel takes none. */
int landlock_begin(unsigned refusals, struct fault *fault);
/* What is not there is passed over, unless `is_needed`. */
struct landlock_rule {
  const char *path;
  unsigned access;
  bool is_needed;
};
int landlock_allow(int rules, const struct landlock_rule *rule, struct fault *fault);
/* For good. Needs no_new_privs. */
int landlock_enforce(int rules, struct fault *fault);

#endif

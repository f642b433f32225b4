/* What the host says about this boot: the `squash.` words of the kernel's command line. */
#ifndef SQUASH_BOOT_SETTINGS_H
#define SQUASH_BOOT_SETTINGS_H
#include <stdint.h>

enum {
  SETTINGS_TEXT_MAX = 256,
  /* As many as a sandbox may have layers, and far more than a machine takes drives. */
  SETTINGS_LOWERS_MAX = 500,
  SETTINGS_MOUNTS_MAX = 16,
};

/* An empty text or 0: it was not told. */
struct settings {
  uint64_t lowers;
  uint64_t shm_bytes;
  uint64_t files;
  uint64_t pids;
  uint64_t copied; /* 1: all else but the network and the number of lowers comes when it was copied (keeper.h) */
  uint64_t ordered; /* 1: the drives have no serials; they are the lowers and then the upper, in this order */
  uint64_t reads; /* 1: the upper is only read, by PID 1, and is not what this root is made of */
  uint64_t time; /* seconds since 1970, when the machine was started */
  char hostname[SETTINGS_TEXT_MAX];
  char nameserver[SETTINGS_TEXT_MAX];
  char address[SETTINGS_TEXT_MAX]; /* with its prefix: `10.0.2.15/24` */
  char gateway[SETTINGS_TEXT_MAX];
  unsigned mount_count;
  const char *mounts[SETTINGS_MOUNTS_MAX]; /* `ro:` or `rw:` and where, without its first slash; the N-th is `N` of what the host shares */
};

/* Reads /proc/cmdline. A word that it does not know ends the boot: the host is of another release. */
void settings_read(struct settings *settings);
/* Words of such a line, which stay in it. */
void settings_take(struct settings *settings, char *line);

#endif

/* The machine's drives, which the host names by their serials, or where its VMM gives them none by their order. */
#ifndef SQUASH_BOOT_DRIVES_H
#define SQUASH_BOOT_DRIVES_H
#include <stdbool.h>

struct drive {
  const char *serial;
  int place; /* its number among all, or -1: it has the serial */
};

/* Reads the serials that there are: before a drive is mounted by one. */
void drives_look(void);
/* Whether it begins with these bytes now. */
bool drive_begins(const struct drive *drive, const char *bytes);
/* How a drive is mounted: without set-uid programs and device nodes, `flags` and `options` beside. */
struct drive_mount {
  const char *to;
  const char *type;
  unsigned long flags;
  const char *options;
};
/* Returns 0 or -1 with errno. */
int drive_mount_try(const struct drive *drive, const struct drive_mount *how);
void drive_mount(const struct drive *drive, const struct drive_mount *how);

#endif

/* The machine's drives, which the host names by their serials, or where its VMM gives them none by their order. */
#ifndef SQUASH_BOOT_DRIVES_H
#define SQUASH_BOOT_DRIVES_H

struct drive {
  const char *serial;
  int place; /* its number among all, or -1: it has the serial */
};

/* Mounts that drive, without set-uid programs and device nodes. `flags` and `options` beside. */
void drive_mount(const struct drive *drive, const char *to, const char *type, unsigned long flags, const char *options);

#endif

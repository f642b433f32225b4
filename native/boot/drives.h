/* The machine's drives, which the host names by their serials. */
#ifndef SQUASH_BOOT_DRIVES_H
#define SQUASH_BOOT_DRIVES_H

/* Mounts the drive of that serial, without set-uid programs and device nodes. `flags` and `options` beside. */
void drive_mount(const char *serial, const char *to, const char *type, unsigned long flags, const char *options);

#endif

/*
 * A machine that stands still, goes on, and comes from a file: what QEMU is told for it.
 *
 * One with a vsock device can't be migrated: it loses it when it is paused, and gets a new one when it goes on. The guest's connections end by
 * it, which in the real one a snapshot does.
 */
#ifndef MIGRATION_H
#define MIGRATION_H
#include "machine.h"

/* Of QEMU's stream, without the memory. It is kept as long as the machine stands still: QEMU would not write a second one. */
#define MIGRATION_STREAM "/dev/shm/stand-in.state"

/* All return NULL, or the fault. */
const char *migration_pause(const struct machine *machine);
const char *migration_resume(const struct machine *machine);
const char *migration_save(void);
/* Of a stream and a memory that are there already. The machine stands still then. */
const char *migration_load(const struct machine *machine);

#endif

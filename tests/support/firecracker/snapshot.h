/*
 * The two files of a snapshot. In that of the state are what the machine was asked to be and QEMU's own stream of its devices; in that of the
 * memory is every page, from the first byte on.
 */
#ifndef SNAPSHOT_H
#define SNAPSHOT_H
#include "machine.h"

/* All return NULL, or the fault. The machine stands still. */
const char *snapshot_write(const struct machine *machine, const char *state, const char *memory);
/* What machine it was, with the stream of its devices where `migration.h` looks for it. */
const char *snapshot_read_state(struct machine *machine, const char *state);
/* Into memory that was made for the machine. The file is only read; what is behind the memory in it is somebody else's. */
const char *snapshot_read_memory(const struct machine *machine, const char *memory);

#endif

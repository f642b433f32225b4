/*
 * A new file under a name of its own until it is whole, then at its place in one step.
 *
 * A worker whose client hangs up gets SIGTERM, where others are killed: `temporary_guard` lets it remove the file first.
 */
#ifndef SQUASH_INIT_TEMPORARY_H
#define SQUASH_INIT_TEMPORARY_H
#include <stdbool.h>
#include <sys/types.h>

/* From now on SIGTERM removes the temporary file and ends the process. */
void temporary_guard(void);
/* Makes a file for writing in `directory`, which stays the caller's and open. Mode 0600. Returns a descriptor or -1. */
int temporary_create(int directory);
/* Gives it its name, over what stands there unless `is_exclusive`. Returns 0 or -1 with errno; then the file is still there. */
int temporary_keep(const char *name, bool is_exclusive);
void temporary_remove(void);

#endif

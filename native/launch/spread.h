/*
 * New files go to many parts of the disk.
 *
 * ext4 puts the files of a directory beside each other. Without a journal it takes no inode of a file that was deleted
 * in the last minutes, and looks at each of them again for every new file: 60 ms of a burst of a hundred creates, in the
 * launcher's only thread. Other file systems do without.
 */
#ifndef SQUASH_LAUNCH_SPREAD_H
#define SQUASH_LAUNCH_SPREAD_H
#include <stdint.h>

enum { SPREAD_NAME_BYTES = 24 };

/* Each directory made in it gets another part of the disk. */
void spread_directory(int directory);

/* Makes the places of new files below `directory`: as many as there is room for on a full disk. */
void spread_prepare(int directory);

/* A name in `directory` to make a file at that is renamed to its own name then; one is under way at a time. */
void spread_name(uint64_t instance, char name[SPREAD_NAME_BYTES]);

#endif

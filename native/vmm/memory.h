/*
 * A guest's memory that is there before its VMM is: a file without a name, filled from a file that was saved.
 *
 * A VMM that reads it page by page takes a fault for each, which on a machine that is virtual itself may cost as much as filling
 * sixteen pages. The VMM's command finds it at descriptor 4, and what stands behind the memory in the saved file from `{memory_end}` on, which is
 * replaced by that number of bytes.
 */
#ifndef SQUASH_VMM_MEMORY_H
#define SQUASH_VMM_MEMORY_H

enum { MEMORY_FD = 4 };

/* Before the process that fills it: opens both. Returns 0 or -1 with errno. */
int memory_open(const char *saved);
/* In that process. Returns 0 or an errno. */
int memory_fill(void);
/* The descriptor, or -1: there is none. */
int memory_fd(void);
/* A command's words with the number in the place of its mark. They stay. */
void memory_mark(char **words);

#endif

/*
 * No set-uid and no set-gid files, for whoever writes places of the host as the user who started it (a box, and in single-id mode a sandbox
 * that has a directory of it): what it makes there is that user's, and another user of the machine would become him by it. Inside, such
 * a bit does nothing. No file gets capabilities either: what a box of root gives one, the machine's kernel gives whoever runs it.
 *
 * Each command loads one more filter before its program; after it none, but where programs may make sandboxes of their own. The
 * sandbox's own filter can't have it: the mode of openat2 is behind a pointer, so that call is absent for commands, and PID 1 needs it
 * to stay below a path.
 */
#ifndef SQUASH_SET_ID_H
#define SQUASH_SET_ID_H
#include <linux/filter.h>
#include <stddef.h>

enum { SET_ID_PROGRAM_MAX = 80 };

void set_id_refuse(void);
/* Programs load filters of their own behind it: those of a box with nesting, and the file server of a microVM. */
void set_id_lets_filter(void);
/* Command: from here on. Returns 0, also where nobody asked, or -1 with errno. */
int set_id_begin(void);
/* Returns the instructions. */
size_t set_id_program(struct sock_filter program[SET_ID_PROGRAM_MAX]);
#endif

/*
 * Memory that each command needs for as long as it runs: one piece of a kind waits for the next command, which so costs no mapping, no page
 * faults and no end of a mapping.
 */
#ifndef SQUASH_INIT_KEPT_MEMORY_H
#define SQUASH_INIT_KEPT_MEMORY_H
#include <stdbool.h>
#include <stddef.h>

struct kept_memory {
  void *waiting;
  size_t bytes; /* of each piece */
};

/* With whatever the last one left in it; zeros where it is new. NULL: there is none. */
void *kept_memory_take(struct kept_memory *kept);
/* `is_small`: few of its pages were written to, so that it may wait. */
void kept_memory_give(struct kept_memory *kept, void *memory, bool is_small);

#endif

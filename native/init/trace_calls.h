/* Which system calls are traced, and what each wants of which path. */
#ifndef SQUASH_INIT_TRACE_CALLS_H
#define SQUASH_INIT_TRACE_CALLS_H
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum trace_need {
  NEED_LOOK,    /* that it is there */
  NEED_READ,
  NEED_EXECUTE,
  NEED_WRITE,   /* what is there */
  NEED_MAKE,    /* a new name */
  NEED_MAKE_OR_WRITE,
  NEED_REMOVE,  /* the name that is there */
};

struct trace_wish {
  enum trace_need need;
  bool follows_link;
  uint64_t path;  /* where it stands in the caller's memory */
  int32_t directory; /* a descriptor of the caller's, or AT_FDCWD */
};

enum { TRACE_WISHES_MAX = 2, TRACE_PROGRAM_MAX = 256 };

/* The filter of a traced command: a notification for each of these calls and for netlink sockets, and no filters of its own.
   Returns the instructions. */
size_t trace_program(struct sock_filter program[TRACE_PROGRAM_MAX]);
/* What the call wants, of how many paths. `read_u64` reads the caller's memory: openat2 has its flags there. */
unsigned trace_wishes(const struct seccomp_data *data, bool (*read_u64)(uint64_t address, uint64_t *value),
                      struct trace_wish wishes[TRACE_WISHES_MAX]);

#endif

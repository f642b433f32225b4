/*
 * The system-call filter of sandboxes and image tools, built from the table in seccomp_table.h.
 *
 * An allow list like container engines ship. What is refused on purpose gives EPERM; what the table does not know
 * (newer calls, the x32 numbers) gives ENOSYS, so that libraries fall back; another architecture ends the process.
 */
#ifndef SQUASH_LAUNCH_SECCOMP_H
#define SQUASH_LAUNCH_SECCOMP_H
#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>

/* The kernel's own bound is 4,096; the table needs about 500. */
enum { SECCOMP_PROGRAM_MAX = 2048 };

struct seccomp_options {
  /* Image tools in single-id mode: changing an owner succeeds without doing anything, because the one id there is
     can't be changed and unsquashfs would call every file a failure. */
  bool pretends_chown;
  /* Boxes that trace paths: squash-init loads one more filter into each command, with a listener, and it says that the command
     may load none (native/init/trace_calls.c). Programs of a box find what they find without a trace: no filters. */
  bool permits_listener;
  /* Boxes that write places of the host: as above, for native/common/set_id.c. */
  bool permits_filter;
  /* Boxes whose programs may make namespaces of their own, and filters in them: nesting.h. */
  bool permits_nesting;
  /* Of these, also one of control groups. */
  bool permits_group_namespaces;
  /* VMMs: they load filters of their own, as programs of boxes that nest do, and for the same price (nesting_use_up_filters). */
  bool permits_own_filters;
};

/* Returns the number of instructions, 0 where `program` is too small. */
size_t seccomp_build(struct sock_filter *program, size_t max, const struct seccomp_options *options);
/* A sealed memfd with the program, for a start to load and for bwrap --seccomp (opened anew for each: bwrap reads to the end). */
int seccomp_file(const struct seccomp_options *options);

#endif

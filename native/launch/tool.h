/*
 * Runs an image tool locked down like a sandbox: under the sandbox's id map, in namespaces of its own without network,
 * with the host's /usr read-only, one input and one output directory, the system-call filter, and limits.
 *
 * mksquashfs reads trees that a sandbox has made, unsquashfs reads files that anybody may have made: a hole in either
 * gives its attacker no more than a sandbox has.
 */
#ifndef SQUASH_LAUNCH_TOOL_H
#define SQUASH_LAUNCH_TOOL_H
#include <stdbool.h>
#include <stdint.h>

#include "common/fault.h"
#include "launch/launcher.h"

enum { TOOL_SAYS_BYTES_MAX = 16384 };

struct tool {
  const struct launcher *launcher;
  const char *const *words; /* program and arguments; input is at /in, output at /out */
  const char *input;        /* below the data directory: a file or a directory; with input_mount below that */
  int input_mount;          /* a detached mount, or -1 */
  const char *output;       /* a directory below the data directory that belongs to the sandbox's root; NULL: output_mount */
  int output_mount;         /* a detached mount */
  const char *written_early; /* name of a file in `output` that goes to the disk while it grows, or NULL */
  bool input_as_stdin;       /* the input, a file, is standard input, too */
  int piped_input;           /* standard input, or 0 */
  bool is_change;            /* what it made is one, and its root has the time `root_time`: image_make.c */
  int64_t root_time;
  char *const *environment; /* NULL: none */
  uint64_t file_bytes_max;
  /* Asked a few times a second; returning false ends the tool with the fault set. */
  bool (*goes_on)(void *context, struct fault *fault);
  void *context;
  /* Results */
  int status;                      /* as from waitpid */
  char says[TOOL_SAYS_BYTES_MAX]; /* the first of what it wrote to stdout and stderr */
  unsigned says_bytes;
  bool said_more;
};

/* Returns 0 when the tool ran and ended by itself; `status` tells how. */
int tool_run(struct tool *tool, struct fault *fault);

#endif

/*
 * Root only: makes directories that lie behind a closed one (`/root`, mode 0700) reachable for the daemon's id.
 *
 * In the daemon's mount namespace the closed directory is covered by an empty tmpfs, and only the wanted
 * directories are attached below it, at their own paths, so that no path has to be translated anywhere. The rest
 * of the closed directory is out of reach for the daemon, which is what its owner meant.
 */
#ifndef SQUASH_LAUNCH_ATTACH_H
#define SQUASH_LAUNCH_ATTACH_H
#include <stdbool.h>
#include <stddef.h>

#include "common/fault.h"

struct attachment {
  const char *path; /* absolute, no symbolic links */
  bool is_writable; /* data and run; the program's own files are attached read-only */
};

/* Call in a mount namespace of the daemon's own, still with root's rights. */
int attach_unreachable(const struct attachment *attachments, size_t count, struct fault *fault);

#endif

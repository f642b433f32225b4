/* Making one squashfs image by mksquashfs, from a tree or from a tar, for the verbs of image.h. */
#ifndef SQUASH_LAUNCH_IMAGE_MAKE_H
#define SQUASH_LAUNCH_IMAGE_MAKE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "common/fault.h"
#include "launch/launcher.h"
#include "launch/request.h"
#include "launch/tool.h"

/* For every tool: whether the host's disk has room beside what it writes, whether nobody waits for it any more, and its last
   words for a message. */
bool image_has_room(const struct launcher *launcher, struct fault *fault);
bool image_is_given_up(int client);
const char *image_last_words(struct tool *tool);

/* `tmp/<purpose>-<pid>-<time>`, writable for the sandbox's root id that the tool runs as. */
int image_make_work(const struct launcher *launcher, const char *purpose, char *path, size_t size, struct fault *fault);

struct image_packing {
  const struct launcher *launcher;
  int client;
};

enum { MKSQUASHFS_WORDS = 18 };

/* What to pack is left to be said; `words` and `pack` have to last as long. */
int image_prepare_mksquashfs(struct tool *tool, const char **words, struct image_packing *pack,
                             const struct request *request, struct fault *fault);
int image_run_mksquashfs(struct tool *tool, struct fault *fault);
/* Takes over what mksquashfs wrote: from a file in the tool's directory to the asked name. */
int image_take_over(const struct launcher *launcher, const struct tool *tool, const char *path, uint64_t *bytes,
                    struct fault *fault);
/* Ended by RLIMIT_FSIZE. */
bool image_is_too_large(const struct tool *tool);
/* Whether it was packed here, from the kernel's overlay: nobody else's marks are in it. */
bool image_has_own_mark(int image);
/* Of an image of a change: the time of its root, which is not in it. */
bool image_root_time(int image, time_t *seconds);

#endif

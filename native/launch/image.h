/* Squashfs images: an upper becomes one, several layers become one, and one becomes a directory. All run in workers. */
#ifndef SQUASH_LAUNCH_IMAGE_H
#define SQUASH_LAUNCH_IMAGE_H
#include "common/frame.h"
#include "launch/fault.h"
#include "launch/launcher.h"
#include "launch/request.h"
#include "launch/tool.h"

/* All add the result's fields to the answer. */
int image_pack(const struct launcher *launcher, const struct request *request, struct frame_writer *answer,
               struct fault *fault);
int image_merge(const struct launcher *launcher, const struct request *request, struct frame_writer *answer,
                struct fault *fault);
int image_pack_tar(const struct launcher *launcher, const struct request *request, struct frame_writer *answer,
                   struct fault *fault);
int image_unpack(const struct launcher *launcher, const struct request *request, struct frame_writer *answer,
                 struct fault *fault);

/* Whether everything unsquashfs complained about is a device that a user namespace may not make. */
bool unsquashfs_says_only_devices(const char *says);

/* For every tool: whether the host's disk has room beside what it writes, whether nobody waits for it any more, and its last
   words for a message. */
bool image_has_room(const struct launcher *launcher, struct fault *fault);
bool image_is_given_up(int client);
const char *image_last_words(struct tool *tool);

#endif

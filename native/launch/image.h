/* Squashfs images: an upper becomes one, several layers become one, and one becomes a directory. All run in workers. */
#ifndef SQUASH_LAUNCH_IMAGE_H
#define SQUASH_LAUNCH_IMAGE_H
#include "common/frame.h"
#include "common/fault.h"
#include "launch/launcher.h"
#include "launch/request.h"

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

#endif

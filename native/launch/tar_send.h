/* The tree at the request's path as a tar, in data frames to its client, however slowly that reads. */
#ifndef SQUASH_LAUNCH_TAR_SEND_H
#define SQUASH_LAUNCH_TAR_SEND_H
#include "common/frame.h"
#include "common/fault.h"
#include "launch/launcher.h"
#include "launch/request.h"

int tar_send(const struct launcher *launcher, const struct request *request, struct frame_writer *answer,
             struct fault *fault);

#endif

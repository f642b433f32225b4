/* One file of a box, for somebody who wants to look at it before it is applied. */
#ifndef SQUASH_LAUNCH_BOX_FILE_H
#define SQUASH_LAUNCH_BOX_FILE_H
#include "common/fault.h"
#include "launch/launcher.h"
#include "launch/request.h"

/* The request's path below its only mount, a place of the box, in data frames: found as an apply finds it, and not a long one. */
int box_file_send(const struct launcher *launcher, const struct request *request, struct fault *fault);

#endif

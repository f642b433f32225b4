/*
 * Copies what is in one volume into another, with `cp` locked down as an image tool: what it reads a sandbox has made. Where the file
 * system can share blocks between files, they are shared.
 */
#ifndef SQUASH_LAUNCH_VOLUME_COPY_H
#define SQUASH_LAUNCH_VOLUME_COPY_H
#include "launch/launcher.h"
#include "launch/request.h"

/* The request's first mount is what is read, its second what is written; on the disk when it returns. */
int volume_copy(const struct launcher *launcher, const struct request *request, struct fault *fault);

#endif

/* Whether the file system in an image upper has met errors: a host's disk that fails or is full to the last byte. */
#ifndef SQUASH_LAUNCH_UPPER_ERRORS_H
#define SQUASH_LAUNCH_UPPER_ERRORS_H
#include "launch/sandbox.h"

/* Looks, once a second at most, and tells who watches where that is news. */
void upper_errors_look(struct launcher *launcher, struct sandbox *sandbox);

#endif

/* Makes what the egress process asks for: connections to the host's network, and streams to itself. See dial.h. */
#ifndef SQUASH_LAUNCH_DIAL_OUT_H
#define SQUASH_LAUNCH_DIAL_OUT_H
#include "launch/dial_request.h"
#include "launch/launcher.h"

/* Answers by itself, at once where it fails. */
void dial_serve(struct launcher *launcher, const struct dial_request *request);

#endif

/* What two stacks of layers show differently, as the verb of a worker. */
#ifndef SQUASH_LAUNCH_DIFFERENCE_H
#define SQUASH_LAUNCH_DIFFERENCE_H
#include "common/frame.h"
#include "common/fault.h"
#include "launch/launcher.h"
#include "launch/request.h"

/* Sends an `entry` for each difference; adds to the answer where to go on. */
int difference_send(const struct launcher *launcher, const struct request *request, struct frame_writer *answer,
                    struct fault *fault);

#endif

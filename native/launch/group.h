/* `groupJoin`: a group of its own for the egress process, so that a traffic flood can't take the daemon's memory. */
#ifndef SQUASH_LAUNCH_GROUP_H
#define SQUASH_LAUNCH_GROUP_H
#include "common/frame.h"
#include "common/fault.h"
#include "launch/launcher.h"
#include "launch/request.h"

/* In a worker. Without control groups it does nothing and says so in the answer's `warning`. */
int group_join(const struct launcher *launcher, const struct request *request, struct frame_writer *writer,
               struct fault *fault);
/* At the launcher's end; a group in which something still runs stays for the next start to empty. */
void group_remove(const struct launcher *launcher);

#endif

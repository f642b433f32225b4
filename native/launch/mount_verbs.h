/*
 * A volume or a directory of the host, into a sandbox that runs and out of it. Runs in a worker, which enters the sandbox's user and mount
 * namespace and no other of it: nobody inside sees it, and it goes nowhere by a link of theirs. What it brings along is the one mount;
 * it executes nothing in there and ends.
 */
#ifndef SQUASH_LAUNCH_MOUNT_VERBS_H
#define SQUASH_LAUNCH_MOUNT_VERBS_H
#include "launch/launcher.h"
#include "launch/request.h"

/* Nothing where exactly this is attached there already. */
int mount_attach(const struct launcher *launcher, const struct request *request, struct fault *fault);
/* Refused while anybody inside uses it: who had a file open would go on writing. */
int mount_detach(const struct launcher *launcher, const struct request *request, struct fault *fault);

#endif

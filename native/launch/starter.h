/*
 * The child that makes a sandbox: cgroup, ids, namespaces, network, overlay, and then the sandbox's first process.
 *
 * It is forked by the launcher, dies with it, and ends when the first process is there. What it learns on the way it tells
 * over `control`: a question for the id maps, or a fault.
 */
#ifndef SQUASH_LAUNCH_STARTER_H
#define SQUASH_LAUNCH_STARTER_H
#include "launch/launcher.h"
#include "launch/start_plan.h"

_Noreturn void starter_main(const struct launcher *launcher, struct starter_plan *plan);

#endif

/*
 * The child that becomes a sandbox: cgroup, ids, namespaces, overlay, bubblewrap.
 *
 * It is forked by the launcher and dies with it until bubblewrap runs. What it learns on the way it tells over
 * `control`: a question for the id maps, or a fault.
 */
#ifndef SQUASH_LAUNCH_STARTER_H
#define SQUASH_LAUNCH_STARTER_H
#include "launch/launcher.h"
#include "launch/start_plan.h"

_Noreturn void starter_main(const struct launcher *launcher, const struct starter_plan *plan);

#endif

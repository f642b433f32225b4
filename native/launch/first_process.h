/* The sandbox's first process, from its fork to squash-init. */
#ifndef SQUASH_LAUNCH_FIRST_PROCESS_H
#define SQUASH_LAUNCH_FIRST_PROCESS_H
#include "launch/launcher.h"
#include "launch/start_plan.h"
#include "launch/supply.h"

/* In the child that is number 1 of the sandbox's pid namespace, root in its user namespace. `assembled` is NULL where it has
   yet to mount the overlay itself. */
_Noreturn void first_process_main(const struct launcher *launcher, const struct starter_plan *plan,
                                  struct supply *assembled);

#endif

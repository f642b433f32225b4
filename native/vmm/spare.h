/*
 * One stream to the guest's PID 1 that waits for whoever comes next: he need not wait until the guest has taken it. It is made when
 * another stream has ended, for then the guest has nothing to do.
 */
#ifndef SQUASH_VMM_SPARE_H
#define SQUASH_VMM_SPARE_H
#include <stdbool.h>

#include "vmm/guest_socket.h"

/* Begins to make one where there is none. What goes wrong costs the next one his own connection and no more. */
void spare_make(const char *guest_path);
/*
 * It is whoever takes it, also one that the guest has not taken yet: `so_far` is what that has answered. -1: there is none. One on which the
 * guest has said something unasked, or which it has ended, is no good.
 */
int spare_take(struct guest_heard *so_far, bool *is_there);
/* Nobody may be let through to the guest now. */
void spare_drop(void);

#endif

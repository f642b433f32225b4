/* The launcher's end of the privileged helper: noticing that all of it was killed or that it hangs, and taking another one. */
#ifndef SQUASH_LAUNCH_HELPER_SEAT_H
#define SQUASH_LAUNCH_HELPER_SEAT_H
#include "launch/connection.h"
#include "launch/launcher.h"

/* From here on the helper's death is noticed. Returns 0 or -1. */
int helper_seat_watch(struct launcher *launcher);
/* Asks it now and then whether it still answers. Returns when it does so next, 0 where there is none. */
int64_t helper_seat_run(struct launcher *launcher);
/* What whoever begins to watch has to know. */
void helper_seat_tell(const struct launcher *launcher, struct connection *watcher);
/* `helperAttach`: the descriptor that came along is the new helper's. Answers. */
void helper_seat_take(struct launcher *launcher, struct connection *connection);

#endif

/* What the launcher does for each kind of request. */
#ifndef SQUASH_LAUNCH_VERBS_H
#define SQUASH_LAUNCH_VERBS_H
#include "launch/connection.h"

/* Runs the parsed request of this connection; the connection may be gone afterwards. */
void verb_run(struct launcher *launcher, struct connection *connection);

#endif

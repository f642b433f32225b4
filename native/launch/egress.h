/*
 * The egress channel: one connection of the egress process, on which it asks for dials for as long as it lives.
 *
 * There is one at a time. The newest wins, because an egress process that attaches has been started by the daemon in
 * place of another one.
 */
#ifndef SQUASH_LAUNCH_EGRESS_H
#define SQUASH_LAUNCH_EGRESS_H
#include "launch/connection.h"

/* Turns the client's connection into the channel; the connection is gone afterwards. */
void egress_attach(struct launcher *launcher, struct connection *connection);
void egress_say_dialed(struct launcher *launcher, uint64_t instance, uint64_t connection, int error);
/* For a forked child: closes its copy of the channel. */
void egress_forget(const struct launcher *launcher);
void egress_detach(struct launcher *launcher);

#endif

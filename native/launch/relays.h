/*
 * The launcher's side of relays: keeps each sandbox's listeners, forks its relay at the first connection or query,
 * hands it what it may talk to, and forks another one when it is gone.
 *
 * Identity is made here: the launcher itself connects to the egress process and writes whose connection it is,
 * before the relay gets it.
 */
#ifndef SQUASH_LAUNCH_RELAYS_H
#define SQUASH_LAUNCH_RELAYS_H
#include "launch/dial.h"
#include "launch/sandbox.h"

void relays_prepare(struct sandbox *sandbox);
/* Takes over the listeners of a sandbox that starts. */
void relays_keep(struct launcher *launcher, struct sandbox *sandbox, const int *listeners, unsigned count);
/* Ends the relays; they are reaped later. Nothing is polled any more. */
void relays_end(struct launcher *launcher, struct sandbox *sandbox);
/* Whether one of the sandbox's relays is not reaped yet. */
bool relays_run(const struct sandbox *sandbox);
bool relays_have(const struct launcher *launcher, pid_t pid);
/* A child was reaped. Returns whether it was a relay of this sandbox. */
bool relays_ended(struct launcher *launcher, struct sandbox *sandbox, pid_t pid, int status);
/* Tries to reach the egress process and polls again, where it is time. Returns the next deadline, 0: none. */
int64_t relays_expire(struct launcher *launcher);
/* The egress process is there: relays that wait for it need not wait longer. */
void relays_hurry(struct launcher *launcher);
/* The relay that gave a connection this number; NULL where it is gone. */
struct relay_seat *relays_with(struct sandbox *sandbox, uint64_t connection);
/* Hands a connected socket over, now or when the channel has room; then tells the egress process. */
void relays_hand(struct launcher *launcher, struct dial *dial);

#endif

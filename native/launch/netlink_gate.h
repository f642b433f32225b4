/*
 * Netlink sockets of a sandbox are made one by one by a process outside of it, which counts them.
 *
 * What the kernel answers on a netlink socket lies there until it is read, up to twice net.core.rmem_max, and is counted
 * against no control group. No limit of the kernel's bounds their number, and `ip`, Go, Java and the C library's
 * getaddrinfo need them. So the filter hands `socket` for that family to the gate (seccomp's user notification).
 *
 * A process can be behind one listener only. In a box that traces paths that is squash-init's (native/init/trace.h), which hands the sockets
 * out as well: who took PID 1 over there would have as many as he likes.
 */
#ifndef SQUASH_LAUNCH_NETLINK_GATE_H
#define SQUASH_LAUNCH_NETLINK_GATE_H
#include "common/fault.h"
#include "launch/launcher.h"
#include "launch/start_plan.h"

/* Forks the gate, in the sandbox's control group, user and network namespace, and puts the calling process behind it.
   Without a gate where the kernel has no user notifications. */
int netlink_gate_start(const struct launcher *launcher, const struct starter_plan *plan, struct fault *fault);

#endif

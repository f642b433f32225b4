/*
 * The trace of paths: which paths commands are refused, for a sandbox that was started with --trace-paths. Others have none of it,
 * no filter and no thread.
 *
 * Each command loads one more filter before its program, which lets a thread of PID 1 know of every call with a path, and waits
 * for the thread's answer. The answer is always "go on" (SECCOMP_USER_NOTIF_FLAG_CONTINUE): the kernel decides as without
 * a trace, after the sandbox's own filter, whose refusals come before any notification. The thread reads the path from the
 * caller's memory, which another thread of the caller may change before the kernel reads it again: so what is noted may be
 * wrong, and decides nothing. Whoever reads it knows that a program can write there what it likes.
 *
 * A thread, because it may wait for memory of the caller that lies on a slow file system, and PID 1 must not; of PID 1, because
 * an ancestor may read a process where the host restricts that (Yama). It ends with PID 1, and everything else with that: no call waits for ever.
 *
 * The thread is the command's user, so that it may read the command and is asked what the user may. Commands can't trace it or read it all the same: PID 1
 * has capabilities that they have not, or gave the user's id to a thread of a process that is then not dumpable; and no signal of the sandbox's ends PID 1.
 *
 * A process is behind one listener at most. So it is this one that hands out netlink sockets, which in other sandboxes somebody outside does
 * (native/launch/netlink_gate.h); and a program that would load a filter of its own gets EINVAL, as in any sandbox.
 */
#ifndef SQUASH_INIT_TRACE_H
#define SQUASH_INIT_TRACE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

void trace_want(void);
/* PID 1, before it forks a command of this user: makes the thread, once. Returns 0 or an errno. */
int trace_start(uid_t uid, gid_t gid);
/* Whether commands are traced. */
bool trace_is_on(void);
/* Command: puts its end of the channel at `fd`. False: nothing is traced. */
bool trace_keep_channel(int fd);
/* Command: from here on each call with a path is noted. Closes `channel`. Returns 0, or -1 with errno, and then nothing with a path can be called. */
int trace_begin(int channel);
#endif

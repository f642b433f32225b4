/*
 * A thread of PID 1 that starts commands without a copy of PID 1: the new process has PID 1's memory until its execve, as after vfork, and only
 * the thread that made it waits meanwhile. A copy costs page tables, and faults of both sides behind it, which are dear in a virtual machine
 * (figures: docs/performance.md).
 *
 * PID 1 itself must not be who waits: a program or directory may lie where opening it takes as long as somebody likes (a lease, a FUSE or network
 * file system). While the thread waits, other commands are forked.
 *
 * A child that has a user's id already, and our memory still, is out of that user's reach: the memory is not dumpable, so nobody without
 * CAP_SYS_PTRACE can trace it or look into it, and no signal makes a core file of it, for which older kernels end all who share it. What
 * the kernel makes of that where the user changes the child takes back before it hears signals (spawn.c); where the kernel makes it
 * everybody's for that moment (fs.suid_dumpable is 1) there is no thread. While its parent waits the kernel does not choose it when memory
 * runs out.
 */
#ifndef SQUASH_INIT_FORK_THREAD_H
#define SQUASH_INIT_FORK_THREAD_H
#include <stdbool.h>
#include <sys/types.h>

/* `over` is called when what the thread started is beyond its execve, or dead: in the loop, or before the thread is called free. */
void fork_thread_tell(void (*over)(void));
/* Makes the thread unless it is there. Where it can't be made, the next call tries again. */
void fork_thread_prepare(void);
/* Whether the thread is there and starts nothing at present. Then what the last child was given is nobody's any more. */
bool fork_thread_is_free(void);
/*
 * While the thread is free: has it make a process that runs `child`, which ends in execve or _exit, with every signal blocked and in memory that
 * PID 1 uses at the same time. Returns its pid, as soon as it has descriptors of its own, or -1 with errno.
 */
pid_t fork_thread_start(void (*child)(void));

#endif

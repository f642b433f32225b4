/*
 * What squash-init has as PID 1 of a microVM's guest and not of a sandbox that the launcher holds: its upper, which the launcher
 * would else read, and the group that its commands are in, which the launcher would else hold still.
 */
#ifndef SQUASH_INIT_MACHINE_H
#define SQUASH_INIT_MACHINE_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Where squash-boot leaves them. */
enum { MACHINE_UPPER = 4, MACHINE_GROUP, MACHINE_HOSTS, MACHINE_END };

/* It is PID 1 of a guest. */
void machine_begin(void);
bool machine_is(void);
/* Before anybody else runs: takes them out of effect and of what a command may get. Returns 0 or -1 with errno. */
int machine_confine(void);
/* Returns 0 or -1 with errno. */
int machine_capabilities_use(bool on);
/* As fork(2), and in a guest the child begins in the commands' group: it is never out of it. It may do nothing but system calls. */
pid_t machine_fork(void);
/* Returns when all commands stand still, or -1 with errno. */
int machine_freeze(void);
void machine_thaw(void);
/* Commands have so many bytes less, in all, than they began with. Returns 0 or -1 with errno, ENOMEM where they use more than is left. */
int machine_take_memory(uint64_t bytes);
/* What commands may have, whatever they are held to for a moment (thrash.h), and what they do have. Return 0 or -1 with errno. */
int machine_memory_limit(uint64_t *bytes);
int machine_memory_used(uint64_t *bytes);
/* Holds commands to their limit, once that has been asked for. Returns 0 or -1 with errno. */
int machine_hold_memory(void);
/* How many of the commands' processes this kernel has ended for want of memory since this was asked before. */
uint64_t machine_oom_kills(void);

#endif

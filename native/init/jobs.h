/*
 * A command with jobs: Ctrl-Z stops it, although no shell of its session could continue it.
 *
 * The kernel drops SIGTSTP, SIGTTIN and SIGTTOU in a process group of which nobody has a parent in another group of the same session. The
 * command leads its session, so nobody of its group has one. Two processes that do nothing make it one: the keeper, of the session, in a
 * group of its own, and its child in the command's group. The command stays PID 1's child and the leader of its session. So whoever ends
 * or stops these two gains nothing and harms nothing but this.
 */
#ifndef SQUASH_INIT_JOBS_H
#define SQUASH_INIT_JOBS_H

/* In the command's process, when it has its session and its terminal, and still PID 1's user. Where there is no room for two processes
 * it does nothing: then Ctrl-Z does nothing either. */
void jobs_begin(void);

#endif

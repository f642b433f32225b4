/* What both programs that are a sandbox's PID 1 do at their beginning and their end. */
#ifndef SQUASH_PID_ONE_H
#define SQUASH_PID_ONE_H
#include <stdbool.h>

/* The number behind `--listen-fd`, above 2; -1 where it is none. */
int pid_one_listen_descriptor(const char *word);
/* Lets go of what is inherited and would pass on to every command: descriptors from `first` on. `listen_fd` becomes 3. Returns 0 or -1 with errno. */
int pid_one_clean(int listen_fd, int first);
/* SIGCHLD, and for tests SIGTERM and SIGINT, on a descriptor. Returns it or -1 with errno. */
int pid_one_signals(void);
/* Gives up what it runs nothing with: as PID 1 only; an ordinary process (tests) keeps what it has. Returns 0 or -1 with errno. */
int pid_one_confine(void);
/* Gives up the capabilities that are left, in it or in a child of it; as `pid_one_confine`. */
int pid_one_disarm(void);
/* For children that work on request: they go before PID 1, and before the host's own, when memory runs out. */
void pid_one_child_goes_first(void);
/* Ends all descendants: those that lose their parent become children of this process, the reaper. */
void pid_one_end_descendants(void);

#endif

/*
 * Whom the kernel ends first when the machine has no memory left. Least of all the keeper and the helper, which
 * bring back the rest, and the launcher, with which every sandbox ends; then daemon and egress process, which start again;
 * relays; then what a sandbox runs, and image tools.
 */
#ifndef SQUASH_LAUNCH_OOM_H
#define SQUASH_LAUNCH_OOM_H
#include <sys/types.h>

/* In the seventeenths of the old interface, see oom.c: -235, -470 and -882 in today's thousandths. */
enum oom_level { OOM_DAEMON = -4, OOM_LAUNCHER = -8, OOM_HELPER = -15 };
/* In thousandths. */
enum { OOM_RELAY = 0, OOM_DAEMON_RAISED = 100, OOM_TOOL = 500 };

/* As root and before anything is forked: from here on nobody who comes of us can spare himself. Does nothing where an
   operator has said that Squash is to go early. */
void oom_begin(void);
/* `pid` 0: ourselves. -1 where that is not allowed, or `oom_begin` left things alone. */
int oom_spare(pid_t pid, enum oom_level level);
/* Last of all in the process that becomes the daemon: where nobody could be spared, it goes before the launcher. */
void oom_settle(void);
/* Whoever calls is ended sooner than the launcher it was forked from, where it is not already. Always allowed. */
void oom_raise(int score);

#endif

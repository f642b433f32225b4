/* What PID 1 hears of by signals: the ends of its children, orphans among them, and, where it is an ordinary process, that it is to end. */
#ifndef SQUASH_REAPER_H
#define SQUASH_REAPER_H
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

/* Returns 0 or -1 with errno. */
int reaper_start(void);
bool reaper_stop_is_due(void);
/* Some children have ended or were stopped, and not all of them are looked at yet. */
bool reaper_is_due(void);
/* Whom to tell of children that were stopped; without it nobody hears of them. */
void reaper_tell_stops(void (*told)(pid_t pid));
/* Reaps some. True: there are no more for now. */
bool reaper_turn(void (*ended)(pid_t pid, int wait_status, const struct rusage *usage));

#endif

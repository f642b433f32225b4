/* What `ps` shows of the processes that stay: they are forks of `enter`, whose arguments name the daemon. */
#ifndef SQUASH_LAUNCH_TITLE_H
#define SQUASH_LAUNCH_TITLE_H
#include <stdbool.h>
#include <sys/types.h>

/* The room that the kernel shows: from the first to the end of the last argument. */
void title_keep(int argc, char **argv);
/* Writes over the arguments; whoever still needs them has copied them. */
void title_set(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Whoever runs the process can make this wait for ever, by what it is mapped from: only a fatal signal ends it then. */
bool title_is(pid_t pid, const char *wanted);

#endif

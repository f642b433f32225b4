/* Ends a privileged helper that hangs, from outside. */
#ifndef SQUASH_LAUNCH_HELPER_END_H
#define SQUASH_LAUNCH_HELPER_END_H

/* As root: kills the helper of that control group's data directory, its child too, and waits until they are gone. */
void helper_end(const char *group);

#endif

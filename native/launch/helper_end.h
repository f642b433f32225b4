/* Ends a privileged helper that hangs, from outside. */
#ifndef SQUASH_LAUNCH_HELPER_END_H
#define SQUASH_LAUNCH_HELPER_END_H

/* As root: kills the helper of that data directory, its child too, and waits until they are gone, but not for ever. `group` is
   the name of the directory's control group. */
void helper_end(const char *group, int data_fd);

#endif

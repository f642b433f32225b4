/*
 * `squash-launch keep …`, with the words of `enter`: the daemon as a child of this process, which starts it again when it
 * asks for that, and as root brings back a privileged helper that was killed whole.
 */
#ifndef SQUASH_LAUNCH_KEEPER_H
#define SQUASH_LAUNCH_KEEPER_H

/* Ends as the daemon did: with its exit code, or by its signal. */
int keeper_main(int argc, char **argv);

#endif

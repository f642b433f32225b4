/*
 * A machine that is to be copied. It has a kernel with its modules, a network, and of a root what needs no drive, and it has heard no
 * name: it says so on the console and stands there until it has a way to the host, which only its copies get. Each of them is told who
 * it is, and goes on as if it had just been started, with random numbers and a clock of its own.
 */
#ifndef SQUASH_BOOT_KEEPER_H
#define SQUASH_BOOT_KEEPER_H
#include "boot/settings.h"

/* Returns the connection that the rest of the settings came by. */
int keeper_wait(int listener, struct settings *settings);
/* Tells who is there that PID 1 takes connections, and closes it. */
void keeper_answer(int asker);

#endif

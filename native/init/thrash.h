/*
 * Commands of a guest that keep each other from running for want of memory. A kernel ends nobody for that as long as it finds a page of a
 * program that it can take, and a machine may do nothing for minutes but read again what it took before. Here that is seen, and commands
 * are held to less than they use until the kernel has ended as many as that takes, by its own choice: each counts as any other that is
 * ended for want of memory.
 */
#ifndef SQUASH_INIT_THRASH_H
#define SQUASH_INIT_THRASH_H

/* When `thrash_look` is due, in milliseconds; -1: never. */
int thrash_next_look_ms(void);
/* Looks, if it is due. */
void thrash_look(void);

#endif

/* What PID 1 gives up before it runs anything for the sandbox. */
#ifndef SQUASH_CONFINE_H
#define SQUASH_CONFINE_H

/* As PID 1 only; an ordinary process (tests) keeps what it has. Returns 0 or -1 with errno. */
int confine(void);

#endif

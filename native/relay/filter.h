/* The relay's system-call filter. */
#ifndef SQUASH_RELAY_FILTER_H
#define SQUASH_RELAY_FILTER_H

/* From now on only what the loop does; anything else ends the process. Returns 0 or -1. */
int filter_load(void);

#endif

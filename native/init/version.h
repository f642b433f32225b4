/* What `info` answers. Rises with the protocol, so that a daemon can see which PID 1 an older one has started. */
#ifndef SQUASH_INIT_VERSION_H
#define SQUASH_INIT_VERSION_H
#define SQUASH_INIT_VERSION "0.1.0"
#endif

/* What `squash-init --version` says. What a daemon asks for is the protocol, in the answer to `info`. */
#ifndef SQUASH_INIT_VERSION_H
#define SQUASH_INIT_VERSION_H
#define SQUASH_INIT_VERSION "0.1.0"
#endif

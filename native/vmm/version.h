/* What `squash-vmm --version` says. */
#ifndef SQUASH_VMM_VERSION_H
#define SQUASH_VMM_VERSION_H
#define SQUASH_VMM_VERSION "0.1.0"
#endif

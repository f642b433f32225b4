/*
 * The sandbox's root in a microVM: what native/launch/new_root.c makes of directories, made of drives. The root directory of the
 * initramfs holds `l/0` … (lowers), `u` (upper), `root` (the overlay) and `etc`, until it is left.
 */
#ifndef SQUASH_BOOT_ROOT_H
#define SQUASH_BOOT_ROOT_H
#include "boot/settings.h"

/* Returns /etc/hosts, which nobody else can write to. */
int root_assemble(const struct settings *settings);
/* Afterwards nothing of the initramfs can be reached. */
void root_enter(void);

#endif

/*
 * The sandbox's root in a microVM: what native/launch/new_root.c makes of directories, made of drives. The root directory of the
 * initramfs holds `l/0` … (lowers), `u` (upper), `root` (the overlay), `k/proc`, `k/dev` and `etc`, until it is left.
 */
#ifndef SQUASH_BOOT_ROOT_H
#define SQUASH_BOOT_ROOT_H
#include "boot/settings.h"

/* What all machines have alike: it needs no drive, and nothing that one is told. */
void root_prepare(void);
/*
 * In a machine that waits to be copied its drives are empty; in a copy they are its own, and from then on this mounts them, as far as that
 * goes: what fails is tried again when the host can be told.
 */
void root_begin(const struct settings *settings);
/* Returns /etc/hosts, which nobody else can write to. */
int root_assemble(const struct settings *settings);
/* Afterwards nothing of the initramfs can be reached. */
void root_enter(void);

#endif

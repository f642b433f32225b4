/* The kernel's modules that came with the initramfs. */
#ifndef SQUASH_BOOT_MODULES_H
#define SQUASH_BOOT_MODULES_H

/* Loads all files of /modules in the order of their names, and removes them: what is left of an initramfs is memory. */
void modules_load(void);

#endif

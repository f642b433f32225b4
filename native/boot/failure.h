/* The end of a boot that can't go on. */
#ifndef SQUASH_BOOT_FAILURE_H
#define SQUASH_BOOT_FAILURE_H

/* One line on the console, `squash-boot: what: errno`, and the machine goes off: its VMM ends, which is what the host looks at. */
_Noreturn void boot_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif

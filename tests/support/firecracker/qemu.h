/* The process of QEMU that is the machine: its command line, and its memory, which the stand-in holds too. */
#ifndef QEMU_H
#define QEMU_H
#include <sys/types.h>

#include "machine.h"

#define QEMU_BACK_END "/dev/shm/stand-in.sock"
#define QEMU_CONTROL "/dev/shm/stand-in.qmp"

/* The process whose end is the machine's. */
extern pid_t qemu_process;
/* -1: there is none yet. */
extern int qemu_memory;

/* Empty memory, with holes. Returns NULL, or the fault. */
const char *qemu_make_memory(const struct machine *machine);
/* Boots the machine in the memory that was made, or waits for a migration into it. Returns its process, or -1. */
pid_t qemu_begin(const struct machine *machine, bool is_incoming);
/* Serves the guest's vsock. Returns NULL when it is bound, as the real one has it when it answers, or the fault. */
const char *qemu_serve_vsock(const struct machine *machine);

#endif

/* QEMU's own protocol: a JSON object a line, each request answered once, with events in between. One connection, to a QEMU that is trusted. */
#ifndef QMP_H
#define QMP_H
#include <sys/types.h>

/* Waits until that process listens there, as long as it lives. Returns NULL, or the fault. */
const char *qmp_open(const char *path, pid_t process);
/* `request` is the whole JSON object of it. Returns NULL, or the fault: also what QEMU refuses. */
const char *qmp_ask(const char *request);
/* What it said last. */
const char *qmp_answer(void);

#endif

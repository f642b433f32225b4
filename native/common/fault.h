/*
 * What went wrong, on its way to the client: a code of the contract's catalogue, errno and one sentence.
 *
 * A function that can fail takes a `struct fault *`, fills it once, where the cause is known, and returns -1.
 * Callers pass it on and add nothing.
 */
#ifndef SQUASH_COMMON_FAULT_H
#define SQUASH_COMMON_FAULT_H

/* A sentence and the last lines of a tool's complaint; more only fills logs. */
enum { FAULT_TEXT_BYTES_MAX = 1024 };

struct fault {
  const char *code;
  int number;
  char text[FAULT_TEXT_BYTES_MAX];
};

/* Records the failure with the present errno (its words are appended when it is not 0). Returns -1. */
int fault_set(struct fault *fault, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* As above, choosing disk_full where errno says that a device or quota has no room. */
int fault_disk(struct fault *fault, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The code that another process gave as text, as this program's own; one that is not known becomes launch_failed. */
const char *fault_code_named(const char *name);

#endif

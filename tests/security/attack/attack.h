/*
 * The attacker's multi-tool: every sub-command tries one thing that a sandbox must not allow.
 *
 * An attack stops at the moment it has shown that it could go on: a file is opened for writing and not written,
 * a signal is number 0. So the same program can be run on the bare machine, where it must succeed; an attack
 * that can't succeed anywhere would prove nothing by failing in a sandbox.
 */
#ifndef ATTACK_H
#define ATTACK_H
#include <stdint.h>

/* Exit codes, and the first word of the last line printed. */
enum { EXIT_HELD = 0, EXIT_BREACH = 66, EXIT_UNTRIED = 77 };

int held(const char *format, ...) __attribute__((format(printf, 1, 2)));
int breach(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* This kernel or machine does not have what is attacked, so neither outcome would mean anything. */
int untried(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A refusal is EPERM, EACCES or a missing call. Any other error comes from behind the wall. */
int refused(const char *what, long result);
/* The file can't be opened at all, for whatever reason. */
int unopened(const char *path, int flags);
/* A count argument; ends the program when it is malformed. */
long count_of(const char *text);

struct attack {
  const char *name;
  int (*run)(int argc, char **argv);
};

/* Each file's attacks, ended by a row without a name. */
extern const struct attack path_attacks[];
extern const struct attack mount_attacks[];
extern const struct attack namespace_attacks[];
extern const struct attack process_attacks[];
extern const struct attack kernel_attacks[];
extern const struct attack socket_attacks[];
extern const struct attack identity_attacks[];
extern const struct attack resource_attacks[];
extern const struct attack shared_attacks[];
extern const struct attack hijack_attacks[];
extern const struct attack swap_attacks[];
extern const struct attack servers[];
#endif

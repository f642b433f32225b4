/*
 * A call of the command line that is handed to a process which stands by: what squash-call sends and take-call.node takes.
 *
 * Over a Unix socket: the head below and `bytes` bytes of strings, each with its NUL: who calls (`describe_caller`), the words, the
 * environment. One who stands by and is like the caller says CALL_TAKEN. Then come CALL_GO and, with it, the caller's standard input,
 * output, error and directory as descriptors: not before, for one that is stopped would hold them. The answer is CALL_ENDED and the exit
 * code, or CALL_REFUSED and anything, and then nothing has run. An end without it means that whoever ran the call was killed.
 */
#ifndef SQUASH_CALL_H
#define SQUASH_CALL_H
#include <stdint.h>
#include <stddef.h>
#include <sys/types.h>

enum {
  CALL_MAGIC = 0x31515343,
  CALL_DESCRIPTORS = 4,
  /* More than a kernel takes as words and environment by default. */
  CALL_BYTES_MAX = 4 * 1024 * 1024,
  CALL_TAKEN = 'y',
  CALL_GO = 'g',
  CALL_ENDED = 'x',
  CALL_REFUSED = 'n',
  CALL_ANSWER_BYTES = 2,
  /* What the other side does in far less, unless it is stopped. */
  CALL_WAIT_MS = 1000,
  CALLER_BYTES = 8192,
};

struct call_head {
  uint32_t magic;
  uint32_t bytes;
  uint32_t words;
  uint32_t umask;
};

/*
 * What another process must have in common with its caller to act for it, as text: ids, groups, namespaces, root directory,
 * whether privileges can still be gained, and which files Node and the program are: another copy of the project may have the same
 * data directory. Returns its length, or -1 where it can't be told.
 */
int describe_caller(const char *node, const char *program, char *text, size_t bytes);

/* Of the user at the other end of a Unix socket; false where it is another than ours. */
_Bool is_own_peer(int socket, pid_t *pid);

#endif

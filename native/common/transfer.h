/*
 * Bytes of one socket on their way to another. Nothing is held while they flow; only what the other side did not take at once
 * is kept, and until it is gone nothing more is read.
 */
#ifndef SQUASH_TRANSFER_H
#define SQUASH_TRANSFER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct transfer {
  uint8_t *kept; /* mapped FRAME_DATA_BYTES_MAX, or NULL */
  size_t kept_start;
  size_t kept_end;
  bool is_ended; /* nothing more comes */
};

enum transfer_outcome {
  TRANSFER_GOES_ON,
  TRANSFER_ENDED,    /* told once */
  TRANSFER_UNREAD,   /* the one side failed */
  TRANSFER_NOT_TAKEN /* the other side takes nothing any more */
};

/* Moves what can be moved now, within bounds: one busy socket must not keep others waiting. */
enum transfer_outcome transfer_run(struct transfer *transfer, int from, int to);
/* What to wait for on the socket that the one reads from and the other writes to. */
uint32_t transfer_interest(const struct transfer *reads, const struct transfer *writes);
void transfer_forget(struct transfer *transfer);

#endif

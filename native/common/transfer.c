/* Transfers: see transfer.h. */
#include "common/transfer.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "common/scratch.h"

enum { READS_PER_RUN = 4 };

void transfer_forget(struct transfer *transfer) {
  if (transfer->kept != NULL) (void)munmap(transfer->kept, FRAME_DATA_BYTES_MAX);
  transfer->kept = NULL;
}

/* Sends what is kept. What is left afterwards waits for EPOLLOUT. */
static enum transfer_outcome send_kept(struct transfer *transfer, int to) {
  while (transfer->kept != NULL) {
    ssize_t put = send(to, transfer->kept + transfer->kept_start, transfer->kept_end - transfer->kept_start,
                       MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put < 0) return errno == EAGAIN || errno == EINTR ? TRANSFER_GOES_ON : TRANSFER_NOT_TAKEN;
    transfer->kept_start += (size_t)put;
    if (transfer->kept_start == transfer->kept_end) transfer_forget(transfer);
  }
  return TRANSFER_GOES_ON;
}

static enum transfer_outcome keep(struct transfer *transfer, size_t start, size_t end) {
  void *memory = mmap(NULL, FRAME_DATA_BYTES_MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return TRANSFER_UNREAD; /* What was read is lost, and so is what would come behind it. */
  transfer->kept = memory;
  transfer->kept_start = 0;
  transfer->kept_end = end - start;
  memcpy(transfer->kept, scratch + start, end - start);
  return TRANSFER_GOES_ON;
}

enum transfer_outcome transfer_run(struct transfer *transfer, int from, int to) {
  for (int i = 0; i < READS_PER_RUN; i++) {
    if (send_kept(transfer, to) != TRANSFER_GOES_ON) return TRANSFER_NOT_TAKEN;
    if (transfer->kept != NULL || transfer->is_ended) return TRANSFER_GOES_ON;
    ssize_t got = recv(from, scratch, sizeof scratch, MSG_DONTWAIT);
    if (got < 0) return errno == EAGAIN || errno == EINTR ? TRANSFER_GOES_ON : TRANSFER_UNREAD;
    if (got == 0) {
      transfer->is_ended = true;
      return TRANSFER_ENDED;
    }
    ssize_t put = send(to, scratch, (size_t)got, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put < 0 && errno != EAGAIN && errno != EINTR) return TRANSFER_NOT_TAKEN;
    if (put < 0) put = 0;
    if (put < got && keep(transfer, (size_t)put, (size_t)got) != TRANSFER_GOES_ON) return TRANSFER_UNREAD;
  }
  return TRANSFER_GOES_ON;
}

uint32_t transfer_interest(const struct transfer *reads, const struct transfer *writes) {
  uint32_t events = 0;
  if (!reads->is_ended && reads->kept == NULL) events |= EPOLLIN;
  if (writes->kept != NULL) events |= EPOLLOUT;
  return events;
}

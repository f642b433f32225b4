/* Being copied: see keeper.h. */
#include "boot/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#include "boot/failure.h"
#include "boot/host_socket.h"
#include "boot/root.h"
#include "common/descriptor.h"
#include "common/frame.h"
#include "common/renewal.h"

enum { LOOK_NS = 10 * 1000 * 1000, LINE_BYTES_MAX = 4096, PAYLOAD_BYTES_MAX = LINE_BYTES_MAX + 256, CLEARED_BYTES_MAX = 64 << 20 };

/* What the host looks for: host/src/drivers/microvm/vm-copy.ts. */
static const char here_it_stands[] = "squash-boot: waits to be copied\n";

/* The host waits behind it: what is wrong ends the machine. */
static void renew(uint8_t *payload, size_t length, struct settings *settings) {
  static char line[LINE_BYTES_MAX];
  struct renewal renewal;
  errno = EINVAL;
  if (!renewal_parse(payload, length, &renewal) || renewal.settings_length >= sizeof line) boot_fail("understand who it is");
  cleanup_fd urandom = open("/dev/urandom", O_RDWR | O_CLOEXEC);
  if (urandom < 0 || renewal_random(&renewal, urandom) != 0) boot_fail("renew the random numbers");
  if (renewal_clock(&renewal) != 0) boot_fail("set the clock");
  memcpy(line, renewal.settings, renewal.settings_length);
  settings_take(settings, line);
}

/*
 * What a free page has held is saved as what is needed is. Here pages are taken, which come as zeros, and given back: those are not. The
 * kernel gives the smallest pieces first, and what was used is in small ones.
 */
static void clear_free_memory(void) {
  struct sysinfo memory;
  if (sysinfo(&memory) != 0) boot_fail("read how much memory there is");
  size_t length = (size_t)memory.freeram * memory.mem_unit;
  length -= length / 8;
  if (length > CLEARED_BYTES_MAX) length = CLEARED_BYTES_MAX;
  void *taken = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (taken == MAP_FAILED || munmap(taken, length) != 0) boot_fail("clear %zu bytes", length);
}

int keeper_wait(int listener, struct settings *settings) {
  static uint8_t payload[PAYLOAD_BYTES_MAX];
  uint8_t head[FRAME_HEADER_BYTES];
  struct frame_header header;
  const struct timespec rest = {.tv_nsec = LOOK_NS};
  clear_free_memory();
  if (write_whole(STDOUT_FILENO, here_it_stands, sizeof here_it_stands - 1) != 0) boot_fail("write to the console");
  while (host_socket_tell() != 0) {
    /* A copy waits most of the time until its way to the host is there. */
    root_begin(settings);
    (void)nanosleep(&rest, NULL);
  }
  int asker = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
  /* One that squash-vmm has given up meanwhile ends without a word: the next one comes. */
  for (; asker >= 0 && read_whole(asker, head, sizeof head) != 1; asker = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) (void)close(asker);
  if (asker < 0) boot_fail("hear from the host");
  errno = EINVAL;
  if (frame_header_parse(head, &header) != FRAME_FINE || header.type != FRAME_GUEST_RENEW || header.length > sizeof payload) {
    boot_fail("understand the host");
  }
  if (read_whole(asker, payload, header.length) != 1) boot_fail("hear from the host");
  renew(payload, header.length, settings);
  return asker;
}

void keeper_answer(int asker) {
  uint8_t ok[FRAME_HEADER_BYTES];
  frame_header_write(ok, FRAME_OK, 0);
  if (write_whole(asker, ok, sizeof ok) != 0) boot_fail("answer the host");
  (void)close(asker);
}

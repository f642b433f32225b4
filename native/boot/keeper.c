/* Being copied: see keeper.h. */
#include "boot/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/random.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "boot/failure.h"
#include "boot/host_socket.h"
#include "common/descriptor.h"
#include "common/frame.h"

enum { LOOK_NS = 10 * 1000 * 1000, SEED_BYTES = 64, LINE_BYTES_MAX = 4096, PAYLOAD_BYTES_MAX = LINE_BYTES_MAX + 256 };

/* What the host looks for: host/src/drivers/microvm/vm-copy.ts. */
static const char here_it_stands[] = "squash-boot: waits to be copied\n";

/* What the template's generator would give next is what each copy's would. */
static void renew_random(const struct field *seed) {
  struct {
    struct rand_pool_info info;
    uint8_t bytes[SEED_BYTES];
  } pool = {.info = {.entropy_count = SEED_BYTES * 8, .buf_size = SEED_BYTES}};
  _Static_assert(offsetof(__typeof__(pool), bytes) == sizeof(struct rand_pool_info), "the bytes are behind their count");
  memcpy(pool.bytes, seed->bytes, SEED_BYTES);
  cleanup_fd fd = open("/dev/urandom", O_RDWR | O_CLOEXEC);
  if (fd < 0 || ioctl(fd, RNDADDENTROPY, &pool) != 0 || ioctl(fd, RNDRESEEDCRNG) != 0) boot_fail("renew the random numbers");
  explicit_bzero(&pool, sizeof pool);
}

static void renew_clock(uint64_t wall_ms) {
  const struct timespec now = {.tv_sec = (time_t)(wall_ms / 1000), .tv_nsec = (long)(wall_ms % 1000) * 1000000};
  if (clock_settime(CLOCK_REALTIME, &now) != 0) boot_fail("set the clock");
}

/* The host waits behind it: what is wrong ends the machine. */
static void renew(uint8_t *payload, size_t length, struct settings *settings) {
  static char line[LINE_BYTES_MAX];
  struct field_reader reader;
  struct field field;
  enum { SEED = 1, WALL = 2, SETTINGS = 4 };
  unsigned seen = 0;
  field_reader_start(&reader, payload, length);
  while (field_next(&reader, &field)) {
    if (field.tag == FIELD_SEED && field.length == SEED_BYTES) {
      renew_random(&field);
      seen |= SEED;
    } else if (field.tag == FIELD_WALL_MS) {
      renew_clock(field.number);
      seen |= WALL;
    } else if (field.tag == FIELD_SETTINGS && field.length < sizeof line && (seen & SETTINGS) == 0) {
      memcpy(line, field.bytes, field.length);
      settings_take(settings, line);
      seen |= SETTINGS;
    } else {
      seen = 0;
      break;
    }
  }
  errno = EINVAL;
  if (reader.fault != FRAME_FINE || seen != (SEED | WALL | SETTINGS)) boot_fail("understand who it is");
}

int keeper_wait(int listener, struct settings *settings) {
  static uint8_t payload[PAYLOAD_BYTES_MAX];
  uint8_t head[FRAME_HEADER_BYTES];
  struct frame_header header;
  const struct timespec rest = {.tv_nsec = LOOK_NS};
  if (write_whole(STDOUT_FILENO, here_it_stands, sizeof here_it_stands - 1) != 0) boot_fail("write to the console");
  while (host_socket_tell() != 0) (void)nanosleep(&rest, NULL);
  int asker = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
  if (asker < 0 || read_whole(asker, head, sizeof head) != 1) boot_fail("hear from the host");
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

/* Brings up `lo`: see loopback.h. The kernel adds 127.0.0.1/8 and ::1 by itself. */
#include "launch/loopback.h"

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "common/descriptor.h"

int loopback_up(void) {
  cleanup_fd fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
  return ioctl(fd, SIOCSIFFLAGS, &request);
}

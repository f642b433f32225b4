/*
 * What PID 1 gives up: see confine.h.
 *
 * The start drops capabilities from the permitted set alone. The bounding set is narrowed to it here, and the
 * inheritable and ambient sets are emptied, so that no command finds a capability that its own user did not have:
 * no_new_privs says the same, this holds without it. stderr leads to the launcher until now; commands get their own.
 */
#include "init/confine.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/descriptor.h"

static int confine_capabilities(void) {
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct data[2];
  if (syscall(SYS_capget, &header, data) != 0) return -1;
  /* The kernel answers EINVAL past its last capability. */
  for (unsigned capability = 0; prctl(PR_CAPBSET_READ, capability) >= 0; capability++) {
    if ((data[capability / 32].permitted & UINT32_C(1) << capability % 32) != 0) continue;
    if (prctl(PR_CAPBSET_DROP, capability) != 0) return -1;
  }
  data[0].inheritable = 0;
  data[1].inheritable = 0;
  return (int)syscall(SYS_capset, &header, data); /* What is not inheritable can't stay ambient. */
}

int confine(void) {
  if (getpid() != 1) return 0;
  cleanup_fd null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0 || confine_capabilities() != 0) return -1;
  for (int fd = 0; fd < 3; fd++) {
    if (dup2(null, fd) < 0) return -1;
  }
  return 0;
}

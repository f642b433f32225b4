/* Capabilities of a sandbox: see capabilities.h. */
#include "common/capabilities.h"

#include <linux/capability.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

const unsigned sandbox_capabilities[SANDBOX_CAPABILITIES] = {
    CAP_CHOWN,  CAP_DAC_OVERRIDE, CAP_FOWNER,  CAP_FSETID,           CAP_KILL,      CAP_SETGID,
    CAP_SETUID, CAP_SETPCAP,      CAP_SETFCAP, CAP_NET_BIND_SERVICE, CAP_SYS_CHROOT};

const unsigned machine_capabilities[MACHINE_CAPABILITIES] = {CAP_SYS_ADMIN, CAP_SYS_TIME};

static uint32_t bit(unsigned capability) { return UINT32_C(1) << capability % 32; }

int capabilities_drop(void) { return capabilities_keep(NULL, 0); }

int capabilities_keep(const unsigned *more, size_t count) {
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct kept[2] = {{0}};
  for (size_t i = 0; i < SANDBOX_CAPABILITIES; i++) {
    kept[sandbox_capabilities[i] / 32].permitted |= bit(sandbox_capabilities[i]);
  }
  for (size_t i = 0; i < count; i++) kept[more[i] / 32].permitted |= bit(more[i]);
  for (unsigned i = 0; i < 2; i++) kept[i].effective = kept[i].permitted;
  return (int)syscall(SYS_capset, &header, kept);
}

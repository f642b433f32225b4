/* See machine.h. */
#include "machine.h"

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "fault.h"
#include "migration.h"
#include "qemu.h"
#include "snapshot.h"

/* On x86 without PCI. */
enum { DEVICES_MAX = 17 };

static const char *about(const char *what, const char *name) { return fault_of("%s: %.200s", what, name); }

static void copy(char *into, size_t size, const char *text) { (void)snprintf(into, size, "%s", text); }

static bool opens(const char *path, int flags) {
  int fd = open(path, flags | O_CLOEXEC);
  if (fd >= 0) (void)close(fd);
  return fd >= 0;
}

static const char *set_boot_source(struct machine *machine, const struct asked *asked) {
  const char *kernel = text_in(asked, "kernel_image_path", ""), *initrd = text_in(asked, "initrd_path", "");
  if (!opens(kernel, O_RDONLY)) return about("The kernel file cannot be opened", kernel);
  if (initrd[0] != '\0' && !opens(initrd, O_RDONLY)) return about("The initrd file cannot be opened", initrd);
  copy(machine->kernel, sizeof machine->kernel, kernel);
  copy(machine->initrd, sizeof machine->initrd, initrd);
  copy(machine->words, sizeof machine->words, text_in(asked, "boot_args", ""));
  return strlen(machine->words) > 2048 ? "The kernel command line is invalid: too large" : NULL;
}

static const char *set_drive(struct machine *machine, const struct asked *asked) {
  const char *id = text_in(asked, "drive_id", ""), *path = text_in(asked, "path_on_host", NULL);
  bool is_read_only = number_in(asked, "is_read_only", 0) != 0;
  if (path == NULL) return "the stand-in has no vhost-user drives";
  if (!opens(path, is_read_only ? O_RDONLY : O_RDWR)) return about("Error manipulating the backing file", path);
  size_t at = 0;
  while (at < machine->drive_count && strcmp(machine->drives[at].id, id) != 0) at++;
  if (at == DRIVES_MAX) return "too many drives";
  if (at == machine->drive_count) machine->drive_count++;
  copy(machine->drives[at].id, sizeof machine->drives[at].id, id);
  copy(machine->drives[at].path, sizeof machine->drives[at].path, path);
  machine->drives[at].is_read_only = is_read_only;
  machine->drives[at].is_root = number_in(asked, "is_root_device", 0) != 0;
  return NULL;
}

/* The device is QEMU's later: one that can't be attached now is told now. */
static const char *try_tap(const char *tap) {
  struct ifreq wish = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
  if (strlen(tap) >= sizeof wish.ifr_name) return about("Could not create the network device: Invalid interface name", tap);
  int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
  copy(wish.ifr_name, sizeof wish.ifr_name, tap);
  bool is_fine = fd >= 0 && ioctl(fd, TUNSETIFF, &wish) == 0;
  if (fd >= 0) (void)close(fd);
  return is_fine ? NULL : about("Could not create the network device: Open tap device failed", tap);
}

static const char *set_interface(struct machine *machine, const struct asked *asked) {
  const char *tap = text_in(asked, "host_dev_name", ""), *wrong = try_tap(tap);
  if (wrong != NULL) return wrong;
  copy(machine->interface, sizeof machine->interface, text_in(asked, "iface_id", ""));
  copy(machine->tap, sizeof machine->tap, tap);
  copy(machine->mac, sizeof machine->mac, text_in(asked, "guest_mac", "06:00:00:00:00:01"));
  return NULL;
}

static const char *name_vsock(struct machine *machine, const struct asked *asked) {
  const char *path = text_in(asked, "uds_path", "");
  if (strlen(path) >= sizeof machine->vsock) return "Cannot create backend for vsock device: path too long";
  copy(machine->vsock, sizeof machine->vsock, path);
  return NULL;
}

static const char *set_vsock(struct machine *machine, const struct asked *asked) {
  const char *wrong = name_vsock(machine, asked);
  machine->cid = number_in(asked, "guest_cid", 3);
  return wrong != NULL ? wrong : qemu_serve_vsock(machine);
}

static const char *start(struct machine *machine) {
  size_t roots = 0;
  for (size_t i = 0; i < machine->drive_count; i++) roots += machine->drives[i].is_root;
  if (machine->kernel[0] == '\0') return "Cannot start microvm without kernel configuration.";
  if (roots > 0 && machine->initrd[0] != '\0') return "the stand-in boots an initrd or a root drive, not both";
  size_t devices = machine->drive_count + (machine->tap[0] != '\0') + (machine->vsock[0] != '\0') + machine->has_entropy + machine->has_balloon;
  if (devices > DEVICES_MAX) return "Cannot register MMIO device: no more IRQs are available";
  const char *wrong = qemu_make_memory(machine);
  if (wrong != NULL) return wrong;
  machine->state = RUNNING;
  qemu_process = qemu_begin(machine, false);
  return qemu_process < 0 ? "Cannot fork" : NULL;
}

/* By the names that they had. */
static const char *open_again(const struct machine *machine) {
  for (size_t i = 0; i < machine->drive_count; i++) {
    const char *path = machine->drives[i].path;
    if (!opens(path, machine->drives[i].is_read_only ? O_RDONLY : O_RDWR)) return about("Error manipulating the backing file", path);
  }
  const char *wrong = machine->tap[0] == '\0' ? NULL : try_tap(machine->tap);
  return wrong != NULL || machine->vsock[0] == '\0' ? wrong : qemu_serve_vsock(machine);
}

static const char *load_machine(struct machine *machine, const struct asked *asked) {
  static struct asked inner;
  const char *memory = text_in(asked, "mem_file_path", "");
  if (object_in(asked, "mem_backend", &inner)) {
    if (strcmp(text_in(&inner, "backend_type", ""), "File") != 0) return "the stand-in loads memory of files only";
    memory = text_in(&inner, "backend_path", "");
  }
  const char *wrong = snapshot_read_state(machine, text_in(asked, "snapshot_path", ""));
  if (wrong != NULL) return wrong;
  if (object_in(asked, "vsock_override", &inner)) wrong = name_vsock(machine, &inner);
  if (wrong == NULL) wrong = qemu_make_memory(machine);
  if (wrong == NULL) wrong = snapshot_read_memory(machine, memory);
  if (wrong == NULL) wrong = open_again(machine);
  if (wrong == NULL) wrong = migration_load(machine);
  return wrong;
}

static const char *load(struct machine *machine, const struct asked *asked) {
  if (machine->is_configured) return "Load snapshot error: Loading a microVM snapshot not allowed after configuring boot-specific resources.";
  const char *wrong = load_machine(machine, asked);
  machine->state = wrong == NULL ? PAUSED : LOST;
  if (wrong != NULL) return fault_of("Load snapshot error: Failed to restore from snapshot: %s", wrong);
  if (number_in(asked, "resume_vm", 0) == 0) return NULL;
  wrong = migration_resume(machine);
  machine->state = wrong == NULL ? RUNNING : LOST;
  return wrong == NULL ? NULL : fault_of("Load snapshot error: Failed to resume microVM: %s", wrong);
}

static const char *create(const struct machine *machine, const struct asked *asked) {
  if (strcmp(text_in(asked, "snapshot_type", "Full"), "Full") != 0) return "the stand-in has no diff snapshots";
  if (machine->state != PAUSED) {
    return "Create snapshot error: Cannot save the microVM state: Operation not allowed: save/restore unavailable while running: it must be paused";
  }
  const char *wrong = snapshot_write(machine, text_in(asked, "snapshot_path", ""), text_in(asked, "mem_file_path", ""));
  return wrong == NULL ? NULL : fault_of("Create snapshot error: %s", wrong);
}

/* What it is already it stays. */
static const char *set_state(struct machine *machine, const struct asked *asked) {
  bool is_to_pause = strcmp(text_in(asked, "state", ""), "Paused") == 0;
  if (is_to_pause == (machine->state == PAUSED)) return NULL;
  const char *wrong = is_to_pause ? migration_pause(machine) : migration_resume(machine);
  if (wrong == NULL) machine->state = is_to_pause ? PAUSED : RUNNING;
  return wrong;
}

static const char *apply_late(struct machine *machine, const struct asked *asked) {
  if (machine->state == NOT_STARTED) return "The requested operation is not supported before starting the microVM.";
  if (asked->endpoint == VM) return set_state(machine, asked);
  return asked->endpoint == SNAPSHOT_CREATE ? create(machine, asked) : "the stand-in has no such action";
}

const char *machine_apply(struct machine *machine, const struct asked *asked) {
  bool is_action = asked->endpoint == ACTIONS && strcmp(text_in(asked, "action_type", ""), "InstanceStart") != 0;
  if (is_action || asked->endpoint == VM || asked->endpoint == SNAPSHOT_CREATE) return apply_late(machine, asked);
  /* Drives, interfaces and pmem come later only with PCI. */
  if (machine->state != NOT_STARTED) {
    return asked->endpoint == DRIVE || asked->endpoint == NETWORK_INTERFACE ? "PCI is not enabled"
                                                                              : "The requested operation is not supported after starting the microVM.";
  }
  if (asked->endpoint == SNAPSHOT_LOAD) return load(machine, asked);
  machine->is_configured = machine->is_configured || asked->endpoint != ACTIONS;
  switch (asked->endpoint) {
    case MACHINE_CONFIG:
      machine->vcpus = number_in(asked, "vcpu_count", 1);
      machine->mib = number_in(asked, "mem_size_mib", 128);
      return NULL;
    case BOOT_SOURCE: return set_boot_source(machine, asked);
    case DRIVE: return set_drive(machine, asked);
    case NETWORK_INTERFACE: return set_interface(machine, asked);
    case VSOCK: return set_vsock(machine, asked);
    case ENTROPY: machine->has_entropy = true; return NULL;
    case BALLOON:
      machine->has_balloon = true;
      machine->reports_free_pages = number_in(asked, "free_page_reporting", 0) != 0;
      return NULL;
    case ACTIONS: return start(machine);
    case VM:
    case SNAPSHOT_CREATE:
    case SNAPSHOT_LOAD:
    case ENDPOINTS: break;
  }
  return "no such endpoint";
}

/* See machine.h. */
#include "machine.h"

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

/* On x86 without PCI. */
enum { DEVICES_MAX = 17, BUSES = 24, WORD_BYTES = 4096, WORDS_MAX = 128 };
#define BACK_END "/dev/shm/stand-in.sock"

pid_t machine_process = -1;
static char fault[512];

static const char *about(const char *what, const char *name) {
  (void)snprintf(fault, sizeof fault, "%s: %.200s", what, name);
  return fault;
}

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
static const char *set_interface(struct machine *machine, const struct asked *asked) {
  const char *tap = text_in(asked, "host_dev_name", "");
  struct ifreq wish = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
  int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
  if (strlen(tap) >= sizeof wish.ifr_name) return about("Could not create the network device: Invalid interface name", tap);
  copy(wish.ifr_name, sizeof wish.ifr_name, tap);
  bool is_fine = fd >= 0 && ioctl(fd, TUNSETIFF, &wish) == 0;
  if (fd >= 0) (void)close(fd);
  if (!is_fine) return about("Could not create the network device: Open tap device failed", tap);
  copy(machine->interface, sizeof machine->interface, text_in(asked, "iface_id", ""));
  copy(machine->tap, sizeof machine->tap, tap);
  copy(machine->mac, sizeof machine->mac, text_in(asked, "guest_mac", "06:00:00:00:00:01"));
  return NULL;
}

static const char *set_vsock(struct machine *machine, const struct asked *asked) {
  const char *path = text_in(asked, "uds_path", "");
  char cid[16];
  if (strlen(path) >= sizeof machine->vsock) return "Cannot create backend for vsock device: path too long";
  if (access(path, F_OK) == 0) return about("Cannot create backend for vsock device: Error binding to the host-side Unix socket", path);
  copy(machine->vsock, sizeof machine->vsock, path);
  (void)snprintf(cid, sizeof cid, "%lld", number_in(asked, "guest_cid", 3));
  if (fork() == 0) {
    (void)execl("/usr/bin/vhost-device-vsock", "vhost-device-vsock", "--socket", BACK_END, "--uds-path", path, "--guest-cid", cid,
                "--tx-buffer-size", "16384", (char *)NULL);
    _exit(127);
  }
  /* Bound when the answer goes out, as the real one has it. */
  for (int looks = 0; looks < 500 && (access(path, F_OK) != 0 || access(BACK_END, F_OK) != 0); looks++) (void)usleep(10000);
  return access(path, F_OK) == 0 ? NULL : "Cannot create backend for vsock device: vhost-device-vsock does not start";
}

static unsigned long long tsc_khz(void) {
  struct timespec from, to;
  (void)clock_gettime(CLOCK_MONOTONIC_RAW, &from);
  uint64_t ticks = __rdtsc();
  (void)usleep(50000);
  (void)clock_gettime(CLOCK_MONOTONIC_RAW, &to);
  double ns = (double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec);
  return (unsigned long long)((double)(__rdtsc() - ticks) * 1e6 / ns);
}

static char *words[WORDS_MAX];
static size_t word_count;

__attribute__((format(printf, 2, 3))) static void put(const char *option, const char *format, ...) {
  static char texts[WORDS_MAX][WORD_BYTES];
  __builtin_va_list values;
  copy(texts[word_count], WORD_BYTES, option);
  words[word_count] = texts[word_count];
  word_count++;
  if (format == NULL) return;
  __builtin_va_start(values, format);
  (void)vsnprintf(texts[word_count], WORD_BYTES, format, values);
  __builtin_va_end(values);
  words[word_count] = texts[word_count];
  word_count++;
}

/* Drives have no serials, and all devices are in the order of their requests, on MMIO. */
static void put_devices(const struct machine *machine) {
  unsigned bus = BUSES; /* The last is what a guest finds first. */
  for (size_t i = 0; i < machine->drive_count; i++) {
    put("-drive", "id=d%zu,file=%s,format=raw,if=none,%s", i, machine->drives[i].path,
        machine->drives[i].is_read_only ? "readonly=on" : "cache=writeback,discard=unmap");
    put("-device", "virtio-blk-device,drive=d%zu,bus=virtio-mmio-bus.%u", i, --bus);
  }
  if (machine->tap[0] != '\0') {
    put("-netdev", "tap,id=net0,ifname=%s,script=no,downscript=no", machine->tap);
    put("-device", "virtio-net-device,netdev=net0,mac=%s,bus=virtio-mmio-bus.%u", machine->mac, --bus);
  }
  if (machine->vsock[0] != '\0') {
    put("-chardev", "socket,id=vsock,path=" BACK_END);
    put("-device", "vhost-user-vsock-device,chardev=vsock,bus=virtio-mmio-bus.%u", --bus);
  }
  if (machine->has_entropy) put("-device", "virtio-rng-device,bus=virtio-mmio-bus.%u", --bus);
  if (machine->has_balloon) {
    put("-device", "virtio-balloon-device,free-page-reporting=%s,bus=virtio-mmio-bus.%u", machine->reports_free_pages ? "on" : "off", --bus);
  }
}

static void become_qemu(const struct machine *machine) {
  put("/usr/bin/qemu-system-x86_64", NULL);
  put("-nodefaults", NULL);
  put("-no-user-config", NULL);
  put("-no-reboot", NULL);
  put("-M", "microvm,memory-backend=mem0,rtc=on");
  put("-accel", "tcg,thread=single,tb-size=32");
  put("-cpu", "max");
  put("-smp", "1");
  put("-m", "%lldM", machine->mib);
  put("-display", "none");
  put("-object", "memory-backend-memfd,id=mem0,size=%lldM,share=on", machine->mib);
  put("-bios", "qboot.rom");
  put("-kernel", "%s", machine->kernel);
  if (machine->initrd[0] != '\0') put("-initrd", "%s", machine->initrd);
  /* What the real one adds, and what this machine needs under emulation. */
  put("-append", "%s pci=off reboot=t tsc=reliable tsc_early_khz=%llu no_timer_check", machine->words, tsc_khz());
  put_devices(machine);
  put("-chardev", "stdio,id=console,signal=off");
  put("-serial", "chardev:console");
  (void)execv(words[0], words);
  perror(words[0]);
  _exit(127);
}

static const char *start(struct machine *machine) {
  size_t roots = 0;
  for (size_t i = 0; i < machine->drive_count; i++) roots += machine->drives[i].is_root;
  if (machine->kernel[0] == '\0') return "Cannot start microvm without kernel configuration.";
  if (roots > 0 && machine->initrd[0] != '\0') return "the stand-in boots an initrd or a root drive, not both";
  size_t devices = machine->drive_count + (machine->tap[0] != '\0') + (machine->vsock[0] != '\0') + machine->has_entropy + machine->has_balloon;
  if (devices > DEVICES_MAX) return "Cannot register MMIO device: no more IRQs are available";
  machine->is_started = true;
  machine_process = fork();
  if (machine_process == 0) become_qemu(machine);
  return machine_process < 0 ? "Cannot fork" : NULL;
}

const char *machine_apply(struct machine *machine, const struct asked *asked) {
  const char *action = text_in(asked, "action_type", "");
  if (asked->endpoint == ACTIONS && strcmp(action, "InstanceStart") != 0) {
    return machine->is_started ? "the stand-in has no such action" : "The requested operation is not supported before starting the microVM.";
  }
  /* Drives, interfaces and pmem come later only with PCI. */
  if (machine->is_started) {
    return asked->endpoint == DRIVE || asked->endpoint == NETWORK_INTERFACE ? "PCI is not enabled"
                                                                              : "The requested operation is not supported after starting the microVM.";
  }
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
    case ENDPOINTS: break;
  }
  return "no such endpoint";
}

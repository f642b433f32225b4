/* See qemu.h. */
#include "qemu.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#include "fault.h"

enum { BUSES = 24, WORD_BYTES = 4096, WORDS_MAX = 128, BYTES_PER_MIB = 1 << 20 };

pid_t qemu_process = -1;
int qemu_memory = -1;

static char *words[WORDS_MAX];
static size_t word_count;

static unsigned long long tsc_khz(void) {
  struct timespec from, to;
  (void)clock_gettime(CLOCK_MONOTONIC_RAW, &from);
  uint64_t ticks = __rdtsc();
  (void)usleep(50000);
  (void)clock_gettime(CLOCK_MONOTONIC_RAW, &to);
  double ns = (double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec);
  return (unsigned long long)((double)(__rdtsc() - ticks) * 1e6 / ns);
}

__attribute__((format(printf, 2, 3))) static void put(const char *option, const char *format, ...) {
  static char texts[WORDS_MAX][WORD_BYTES];
  __builtin_va_list values;
  (void)snprintf(texts[word_count], WORD_BYTES, "%s", option);
  words[word_count] = texts[word_count];
  word_count++;
  if (format == NULL) return;
  __builtin_va_start(values, format);
  (void)vsnprintf(texts[word_count], WORD_BYTES, format, values);
  __builtin_va_end(values);
  words[word_count] = texts[word_count];
  word_count++;
}

/*
 * Drives have no serials, and all devices are in the order of their requests, on MMIO.
 *
 * But the vsock, which is on PCI: it is the one thing in which the guest's machine differs from a real Firecracker's. QEMU can't migrate a
 * machine that has one, and on MMIO it would stay where it is.
 */
static void put_devices(const struct machine *machine, bool is_incoming) {
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
  put("-device", "pcie-root-port,id=port0,chassis=1,slot=1");
  /* One that comes from a snapshot gets its vsock when it goes on. */
  if (machine->vsock[0] != '\0' && !is_incoming) {
    put("-chardev", "socket,id=vsock,path=" QEMU_BACK_END);
    put("-device", "vhost-user-vsock-pci,chardev=vsock,bus=port0,id=vsock0");
  }
  if (machine->has_entropy) put("-device", "virtio-rng-device,bus=virtio-mmio-bus.%u", --bus);
  if (machine->has_balloon) {
    put("-device", "virtio-balloon-device,free-page-reporting=%s,bus=virtio-mmio-bus.%u", machine->reports_free_pages ? "on" : "off", --bus);
  }
}

/* A snapshot has no use for the initrd and the kernel's words: they need not be there any more. */
static void put_kernel(const struct machine *machine, bool is_incoming) {
  put("-kernel", "%s", machine->kernel);
  if (is_incoming) {
    put("-incoming", "defer");
    return;
  }
  if (machine->initrd[0] != '\0') put("-initrd", "%s", machine->initrd);
  /* What the real one adds, and what this machine needs under emulation and for its vsock. */
  put("-append", "%s pcie_ports=native reboot=t tsc=reliable tsc_early_khz=%llu no_timer_check", machine->words, tsc_khz());
}

static _Noreturn void become_qemu(const struct machine *machine, bool is_incoming) {
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  put("/usr/bin/qemu-system-x86_64", NULL);
  put("-nodefaults", NULL);
  put("-no-user-config", NULL);
  put("-no-reboot", NULL);
  put("-M", "microvm,pcie=on,memory-backend=mem0,rtc=on");
  put("-accel", "tcg,thread=single,tb-size=32");
  put("-cpu", "max");
  put("-smp", "1");
  put("-m", "%lldM", machine->mib);
  put("-display", "none");
  put("-object", "memory-backend-file,id=mem0,mem-path=/proc/self/fd/%d,size=%lldM,share=on", qemu_memory, machine->mib);
  put("-bios", "qboot.rom");
  put_kernel(machine, is_incoming);
  put_devices(machine, is_incoming);
  put("-chardev", "stdio,id=console,signal=off");
  put("-serial", "chardev:console");
  put("-qmp", "unix:" QEMU_CONTROL ",server=on,wait=off");
  (void)execv(words[0], words);
  perror(words[0]);
  _exit(127);
}

const char *qemu_make_memory(const struct machine *machine) {
  /* QEMU inherits it. */
  qemu_memory = memfd_create("memory", 0);
  if (qemu_memory < 0 || ftruncate(qemu_memory, (off_t)machine->mib * BYTES_PER_MIB) != 0) return fault_of_errno("Cannot create guest memory");
  return NULL;
}

pid_t qemu_begin(const struct machine *machine, bool is_incoming) {
  pid_t process = fork();
  if (process == 0) become_qemu(machine, is_incoming);
  return process;
}

const char *qemu_serve_vsock(const struct machine *machine) {
  char cid[24];
  const char *path = machine->vsock;
  if (access(path, F_OK) == 0) {
    return fault_of("Cannot create backend for vsock device: Error binding to the host-side Unix socket: %s", path);
  }
  (void)snprintf(cid, sizeof cid, "%lld", machine->cid);
  if (fork() == 0) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)execl("/usr/bin/vhost-device-vsock", "vhost-device-vsock", "--socket", QEMU_BACK_END, "--uds-path", path, "--guest-cid", cid,
                "--tx-buffer-size", "16384", (char *)NULL);
    _exit(127);
  }
  for (int looks = 0; looks < 500 && (access(path, F_OK) != 0 || access(QEMU_BACK_END, F_OK) != 0); looks++) (void)usleep(10000);
  return access(path, F_OK) == 0 ? NULL : "Cannot create backend for vsock device: vhost-device-vsock does not start";
}

/* What this host offers: see probe.h. Each row tells what was found, what is done with it, what is weaker, what mends it. */
#include "launch/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/frame.h"
#include "common/file.h"
#include "launch/helper.h"
#include "launch/landlock.h"
#include "launch/network.h"
#include "launch/overlay_probe.h"

enum state { STATE_OK, STATE_WEAKER, STATE_MISSING };

struct capability {
  const char *name;
  enum state state;
  bool is_required;
  const char *found;
  const char *choice;
  const char *weaker;
  const char *remedy;
};

static void send_capability(int client, const struct capability *row) {
  uint8_t buffer[4096];
  struct frame_writer writer = frame_writer_on(buffer, sizeof buffer);
  frame_begin(&writer, FRAME_ENTRY);
  frame_text(&writer, FIELD_CAPABILITY, row->name);
  frame_integer(&writer, FIELD_STATUS, (uint64_t)row->state);
  frame_integer(&writer, FIELD_REQUIRED, row->is_required);
  frame_text(&writer, FIELD_FOUND, row->found);
  frame_text(&writer, FIELD_CHOICE, row->choice);
  if (row->weaker != NULL) frame_text(&writer, FIELD_WEAKER, row->weaker);
  if (row->remedy != NULL) frame_text(&writer, FIELD_REMEDY, row->remedy);
  size_t length = frame_finish(&writer);
  if (length > 0) (void)write_whole(client, buffer, length);
}

/* The first 8 KiB of what a program says about itself. */
static void output_of(const char *program, const char *argument, char *text, size_t size) {
  int ends[2];
  text[0] = '\0';
  if (program == NULL || pipe2(ends, O_CLOEXEC) != 0) return;
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 1);
    dup2(ends[1], 2);
    execl(program, program, argument, (char *)NULL);
    _exit(127);
  }
  close(ends[1]);
  size_t used = 0;
  char rest[512];
  for (;;) {
    bool is_full = used + 1 >= size;
    ssize_t got = read(ends[0], is_full ? rest : text + used, is_full ? sizeof rest : size - 1 - used);
    if (got <= 0) break;
    if (!is_full) used += (size_t)got;
  }
  text[used] = '\0';
  close(ends[0]);
  while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR) continue;
}

/* What root's Squash has to say of ranges; the others have one at most. */
static void describe_ranges(const struct launcher *launcher, struct capability *row) {
  if (launcher->has_own_ids) row->choice = "each sandbox has 65,536 user and group ids of its own";
  if (launcher->shared_reason[0] == '\0') return;
  row->state = STATE_WEAKER;
  row->found = launcher->shared_reason;
  row->choice = "one range of 65,536 ids for all sandboxes, none of them the daemon's";
  row->weaker = "what the kernel counts per user (registrations of epoll, the size of pipes, descriptors in flight) is one "
                "account for all sandboxes";
  row->remedy = "Linux 5.19 or later and a data directory of one mount on ext4, xfs or btrfs";
}

static void probe_ids(const struct launcher *launcher, int client) {
  send_capability(client, &(struct capability){.name = "user_namespaces",
                                               .is_required = true,
                                               .found = "user and mount namespaces work for this user",
                                               .choice = "daemon and each sandbox in one of their own"});
  struct capability row = {.name = "subordinate_ids",
                           .found = "a range of 65,536 ids",
                           .choice = "sandboxes have 65,536 user and group ids, none of them the daemon's"};
  describe_ranges(launcher, &row);
  if (launcher->is_single) {
    row.state = STATE_WEAKER;
    row.found = launcher->single_reason[0] != '\0' ? launcher->single_reason : "SQUASH_IDS=single";
    row.choice = "one id, which root inside and the daemon share";
    /* The kernel lets nobody without privilege give up a group: neither before nor inside a user namespace. */
    row.weaker = getgroups(0, NULL) > 0
                     ? "packages that make users or change owners fail inside; root inside and the daemon have one id on the "
                       "host, held apart by namespaces alone; commands keep your groups of the host (docker, disk, kvm, if "
                       "you are in them), which reach nothing from inside but would serve whoever broke out"
                     : "packages that make users or change owners fail inside; root inside and the daemon have one id on "
                       "the host, held apart by namespaces alone";
    row.remedy = "sudo apt install uidmap && sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 "
                 "\"$USER\", then `squash stop --all` and start again";
  }
  send_capability(client, &row);
}

static void probe_bubblewrap(const struct launcher *launcher, int client) {
  char version[128];
  output_of(launcher->bwrap, "--version", version, sizeof version);
  version[strcspn(version, "\n")] = '\0';
  unsigned major = 0;
  unsigned minor = 0;
  bool is_known = sscanf(version, "bubblewrap %u.%u", &major, &minor) == 2;
  bool is_new = is_known && (major > 0 || minor >= 5);
  send_capability(client,
                  &(struct capability){.name = "bubblewrap",
                                       .state = is_new ? STATE_OK : STATE_MISSING,
                                       .is_required = true,
                                       .found = is_known ? version : "no bwrap in the system's directories",
                                       .choice = is_new ? "confines the image tools"
                                                        : "no layer is unpacked and no snapshot taken: there is no weaker fallback",
                                       .weaker = is_new ? NULL : "images",
                                       .remedy = is_new ? NULL : "sudo apt install bubblewrap (0.5 or later)"});
}

static void probe_overlay(const struct launcher *launcher, int client) {
  char why[128];
  char device[96];
  bool has_kernel = overlay_probe(launcher, (struct overlay_trial){0}, why, sizeof why);
  cleanup_fd fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
  bool has_device = fuse >= 0 || (launcher->helper_fd >= 0 && access("/dev/fuse", F_OK) == 0);
  bool has_fuse = has_device && launcher->fuse_overlayfs != NULL;
  snprintf(device, sizeof device, "%s, %s",
           launcher->fuse_overlayfs != NULL ? launcher->fuse_overlayfs : "no fuse-overlayfs",
           fuse >= 0 ? "/dev/fuse opens" : has_device ? "/dev/fuse through the privileged helper" : "/dev/fuse can't be opened");
  send_capability(client, &(struct capability){
                              .name = "kernel_overlay",
                              .state = has_kernel ? STATE_OK : has_fuse ? STATE_WEAKER : STATE_MISSING,
                              .is_required = !has_fuse,
                              .found = has_kernel ? "overlayfs mounts in a user namespace" : why,
                              .choice = launcher->overlays_by_fuse ? "fuse-overlayfs" : "the kernel's overlayfs",
                              .weaker = has_kernel ? NULL : "file access inside goes through a user-space program",
                              .remedy = has_kernel ? NULL : "a kernel from 5.11 on, and a data directory on ext4, xfs or btrfs"});
  send_capability(client, &(struct capability){.name = "fuse_overlayfs",
                                               .state = has_fuse ? STATE_OK : STATE_MISSING,
                                               .is_required = !has_kernel,
                                               .found = device,
                                               .choice = launcher->overlays_by_fuse ? "in use" : "not needed",
                                               .remedy = has_fuse                             ? NULL
                                                         : launcher->fuse_overlayfs == NULL ? "sudo apt install fuse-overlayfs"
                                                                                            : "sudo modprobe fuse && sudo chmod 666 /dev/fuse"});
}

static void probe_network(int client) {
  char why[256];
  bool has_it = network_probe(why, sizeof why);
  send_capability(client, &(struct capability){
                              .name = "network",
                              .state = has_it ? STATE_OK : STATE_WEAKER,
                              .found = has_it ? "packet rules with TPROXY in a user's network namespace" : why,
                              .choice = has_it ? "each sandbox has a relay as its only way out"
                                               : "sandboxes have loopback only",
                              .weaker = has_it ? NULL : "no sandbox reaches any host, whatever its policy allows",
                              .remedy = has_it ? NULL
                                               : "a kernel with nf_tables and nft_tproxy (sudo modprobe -a nf_tables "
                                                 "nft_tproxy)"});
}

static void probe_cgroups(const struct launcher *launcher, int client) {
  static const struct {
    const char *name;
    enum cgroup_controller controller;
    const char *weaker;
  } rows[] = {
      {"cgroup_memory", CGROUP_MEMORY, "a sandbox may use all memory of the host"},
      {"cgroup_cpu", CGROUP_CPU, "a sandbox may use all processors"},
      {"cgroup_pids", CGROUP_PIDS, "a sandbox may start processes until the host has no more"},
      {"cgroup_freezer", CGROUP_FREEZER, "snapshots stop processes by signals, which the processes can notice"},
  };
  bool is_unified = access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    bool has_it = launcher->cgroups.version != 0 && launcher->cgroups.has[rows[i].controller];
    send_capability(
        client, &(struct capability){
                    .name = rows[i].name,
                    .state = has_it ? STATE_OK : STATE_WEAKER,
                    .found = launcher->cgroups.detail,
                    .choice = has_it ? "one group per sandbox" : "none",
                    .weaker = has_it ? NULL : rows[i].weaker,
                    .remedy = has_it        ? NULL
                              : !is_unified ? "start Squash as root, or boot with systemd.unified_cgroup_hierarchy=1: "
                                              "groups of version 1 can't be given to a user"
                                            : "start Squash as a systemd service with Delegate=yes (packaging/), or "
                                              "`systemd-run --user --scope -p Delegate=yes ./squash serve`, or as root"});
  }
}

static void probe_uppers(const struct launcher *launcher, int client) {
  struct helper_abilities abilities = {.images_detail = "Squash was not started by root",
                                       .projects_detail = "Squash was not started by root"};
  struct fault fault;
  char why[128];
  if (launcher->helper_fd >= 0) (void)helper_abilities(launcher->helper_fd, &abilities, &fault);
  bool is_measured = !abilities.has_projects && !abilities.has_images;
  send_capability(client, &(struct capability){
                              .name = "upper_project",
                              .state = abilities.has_projects ? STATE_OK : STATE_MISSING,
                              .found = abilities.projects_detail,
                              .choice = abilities.has_projects ? "limits each upper" : "not used",
                              .remedy = abilities.has_projects ? NULL
                                                               : "a data directory on a file system mounted with prjquota"});
  send_capability(client, &(struct capability){
                              .name = "upper_image",
                              .state = abilities.has_images ? STATE_OK : STATE_MISSING,
                              .found = abilities.images_detail,
                              .choice = abilities.has_projects ? "not needed"
                                        : abilities.has_images ? "limits each upper"
                                                               : "not used",
                              .weaker = is_measured ? "uppers are held to their limit by measuring: a fast writer "
                                                      "overshoots before its commands are killed"
                                                    : NULL,
                              .remedy = abilities.has_images ? NULL : "start Squash as root, with e2fsprogs installed"});
  bool has_tmpfs = overlay_probe(launcher, (struct overlay_trial){.on_tmpfs = true}, why, sizeof why);
  send_capability(client, &(struct capability){.name = "upper_tmpfs",
                                               .state = has_tmpfs ? STATE_OK : STATE_MISSING,
                                               .found = has_tmpfs ? "an overlay's upper may lie on a tmpfs" : why,
                                               .choice = "only where SQUASH_UPPER=tmpfs asks for it",
                                               .remedy = has_tmpfs ? NULL : "a kernel from 6.6 on"});
}

static void probe_tools(const struct launcher *launcher, int client) {
  char help[8192];
  output_of(launcher->mksquashfs, "-help", help, sizeof help);
  bool packs = strstr(help, "zstd") != NULL;
  output_of(launcher->unsquashfs, "-help", help, sizeof help);
  bool unpacks = strstr(help, "zstd") != NULL;
  bool is_fine = packs && unpacks;
  send_capability(client, &(struct capability){.name = "squashfs_tools",
                                               .state = is_fine ? STATE_OK : STATE_MISSING,
                                               .is_required = true,
                                               .found = is_fine                         ? "mksquashfs and unsquashfs with zstd"
                                                        : launcher->mksquashfs == NULL ||
                                                                  launcher->unsquashfs == NULL
                                                            ? "mksquashfs or unsquashfs is not installed"
                                                            : "mksquashfs or unsquashfs without zstd",
                                               .choice = is_fine ? "run locked down like a sandbox" : "none",
                                               .weaker = is_fine ? NULL : "no layer can be unpacked, no snapshot taken",
                                               .remedy = is_fine ? NULL : "sudo apt install squashfs-tools"});
}

static void probe_landlock(int client) {
  char found[64];
  int abi = landlock_abi();
  snprintf(found, sizeof found, abi > 0 ? "Landlock, ABI %d" : "no Landlock", abi);
  bool has_daemon = abi >= LANDLOCK_ABI_RENAMES;
  send_capability(client, &(struct capability){
                              .name = "landlock",
                              .state = has_daemon ? STATE_OK : STATE_WEAKER,
                              .found = found,
                              .choice = has_daemon ? "daemon and egress process open their own files only"
                                        : abi > 0  ? "the egress process opens its own files only"
                                                   : "none",
                              .weaker = has_daemon ? NULL
                                        : abi > 0  ? "a hijacked daemon opens whatever its user may"
                                                   : "a hijacked daemon or egress process opens whatever its user may",
                              .remedy = has_daemon ? NULL : "a kernel from 5.19 on, with landlock in CONFIG_LSM or lsm="});
}

/* The kernel starts the handler of a crash as the host's root, whatever namespace the crash was in. */
static void probe_crash_handler(int client) {
  char pattern[192];
  if (text_file_read(AT_FDCWD, "/proc/sys/kernel/core_pattern", pattern, sizeof pattern) < 0) return;
  pattern[strcspn(pattern, "\n")] = '\0';
  bool is_started = pattern[0] == '|' || pattern[0] == '@';
  send_capability(client, &(struct capability){
                              .name = "crash_handler",
                              .state = is_started ? STATE_WEAKER : STATE_OK,
                              .found = pattern,
                              .choice = is_started ? "starts for those crashes in sandboxes that ask for it" : "crashes in sandboxes leave no core file",
                              .weaker = is_started ? "a program in a sandbox can have the host's handler read its memory, "
                                                     "outside of the sandbox's limits"
                                                   : NULL,
                              .remedy = is_started ? "sudo sysctl -w kernel.core_pattern=core" : NULL});
}

void probe_send(const struct launcher *launcher, int client) {
  struct utsname system;
  uint32_t action = SECCOMP_RET_KILL_PROCESS;
  char kernel[160] = "unknown";
  if (uname(&system) == 0) snprintf(kernel, sizeof kernel, "Linux %s on %s", system.release, system.machine);
  send_capability(client, &(struct capability){.name = "kernel", .found = kernel, .choice = "shared with sandboxes"});
  probe_ids(launcher, client);
  probe_bubblewrap(launcher, client);
  bool has_filter = syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
  send_capability(client, &(struct capability){.name = "seccomp",
                                               .state = has_filter ? STATE_OK : STATE_MISSING,
                                               .is_required = true,
                                               .found = has_filter ? "system-call filters" : strerror(errno),
                                               .choice = "an allow list in every sandbox and image tool",
                                               .remedy = has_filter ? NULL : "a kernel with CONFIG_SECCOMP_FILTER"});
  probe_landlock(client);
  probe_crash_handler(client);
  probe_overlay(launcher, client);
  probe_network(client);
  probe_cgroups(launcher, client);
  probe_uppers(launcher, client);
  probe_tools(launcher, client);
}

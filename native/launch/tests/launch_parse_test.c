/* What the launcher reads from outside: paths and requests of clients, mount tables, tools' complaints. */
#include <stdlib.h>
#include <string.h>

#include "launch/cgroup_files.h"
#include "launch/dial_request.h"
#include "common/device_tree.h"
#include "common/file.h"
#include "launch/image.h"
#include "launch/request.h"
#include "tests/check.h"

static void check_paths(void) {
  static const char *const fine[] = {"a", "layers/abc", "sandboxes/x/uppers/1", ".hidden", "...", "a/..b/c.squashfs"};
  static const char *const malformed[] = {"", "/", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "a/../b", "a/./b"};
  for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++) CHECK(path_is_relative(fine[i]));
  for (size_t i = 0; i < sizeof malformed / sizeof malformed[0]; i++) CHECK(!path_is_relative(malformed[i]));
  char text[REQUEST_PATH_BYTES_MAX + 2];
  memset(text, 'a', sizeof text);
  for (size_t i = 200; i < sizeof text; i += 200) text[i] = '/';
  text[REQUEST_PATH_BYTES_MAX] = '\0';
  CHECK(path_is_relative(text));
  text[REQUEST_PATH_BYTES_MAX] = 'a';
  text[REQUEST_PATH_BYTES_MAX + 1] = '\0';
  CHECK(!path_is_relative(text));
}

static void check_mount_table(void) {
  char version_1[] = "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n";
  char version_2[] = "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
  char torn[] = "41 31 0:38 / /sys/fs/cgroup";
  char empty[] = "";
  struct mount_line mount;
  CHECK(mount_line_parse(version_1, &mount));
  CHECK(strcmp(mount.mount_point, "/sys/fs/cgroup/cpu,cpuacct") == 0 && strcmp(mount.type, "cgroup") == 0);
  CHECK(list_has(mount.options, "cpu", ',') && list_has(mount.options, "cpuacct", ','));
  CHECK(!list_has(mount.options, "cp", ',') && !list_has(mount.options, "cpuset", ','));
  CHECK(mount_line_parse(version_2, &mount) && strcmp(mount.type, "cgroup2") == 0);
  CHECK(!mount_line_parse(torn, &mount) && !mount_line_parse(empty, &mount));
  char name[CGROUP_NAME_BYTES];
  char other[CGROUP_NAME_BYTES];
  cgroup_base_name("/var/lib/squash", name, sizeof name);
  cgroup_base_name("/var/lib/squash2", other, sizeof other);
  CHECK(strlen(name) == 23 && strncmp(name, "squash-", 7) == 0 && strcmp(name, other) != 0);
}

static void check_complaints(void) {
#define DEVICE "create_inode: failed to create block device /out/tree/sda, because Operation not permitted\n"
  CHECK(unsquashfs_says_only_devices(DEVICE));
  CHECK(unsquashfs_says_only_devices(DEVICE "\n" DEVICE));
  CHECK(!unsquashfs_says_only_devices(""));
  CHECK(!unsquashfs_says_only_devices("\n"));
  CHECK(!unsquashfs_says_only_devices(DEVICE "set_attributes: failed to change uid and gids on /out/x"));
  CHECK(!unsquashfs_says_only_devices("create_inode: failed to create block device /x, because No space left on device\n"));
}

static size_t start_request(uint8_t *buffer, size_t size, const char *lower, int lowers) {
  struct frame_writer writer = frame_writer_on(buffer, size);
  frame_begin(&writer, FRAME_SANDBOX_START);
  frame_text(&writer, FIELD_NAME, "box");
  frame_integer(&writer, FIELD_INSTANCE, 7);
  frame_text(&writer, FIELD_HOSTNAME, "box");
  for (int i = 0; i < lowers; i++) frame_text(&writer, FIELD_LOWER, lower);
  frame_text(&writer, FIELD_UPPER, "sandboxes/box/uppers/1");
  frame_text(&writer, FIELD_UPPER_KIND, "image");
  static const enum field_tag numbers[] = {FIELD_MEMORY_BYTES_MAX, FIELD_CPU_MILLI,      FIELD_PIDS_MAX, FIELD_SHM_BYTES_MAX,
                                           FIELD_OPEN_FILES_MAX,   FIELD_BYTES_MAX, FIELD_INODES_MAX};
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) frame_integer(&writer, numbers[i], 64);
  return frame_finish(&writer);
}

static int parse(uint8_t *buffer, size_t length, struct request *request) {
  struct fault fault;
  int result = request_parse(request, buffer[4], buffer + FRAME_HEADER_BYTES, length - FRAME_HEADER_BYTES, &fault);
  if (result != 0) CHECK(strcmp(fault.code, "invalid_request") == 0);
  return result;
}

static void check_requests(void) {
  static uint8_t buffer[65536];
  struct request request;
  size_t length = start_request(buffer, sizeof buffer, "layers/x", 3);
  CHECK(parse(buffer, length, &request) == 0);
  CHECK(request.lower_count == 3 && request.upper_kind == UPPER_IMAGE && request.instance == 7);
  CHECK(strcmp(request.lowers[2], "layers/x") == 0 && strcmp(request.hosts, "") == 0);
  request_free(&request);
  static const char *const malformed[] = {"../x", "/etc", "", "a//b"};
  for (size_t i = 0; i < sizeof malformed / sizeof malformed[0]; i++) {
    length = start_request(buffer, sizeof buffer, malformed[i], 1);
    CHECK(parse(buffer, length, &request) != 0);
    request_free(&request);
  }
  length = start_request(buffer, sizeof buffer, "l", LOWERS_MAX + 1);
  CHECK(parse(buffer, length, &request) != 0);
  request_free(&request);
  length = start_request(buffer, sizeof buffer, "l", 0); /* required */
  CHECK(parse(buffer, length, &request) != 0);
  request_free(&request);
  struct frame_writer writer = frame_writer_on(buffer, sizeof buffer);
  frame_begin(&writer, FRAME_SANDBOX_STOP);
  frame_bytes(&writer, FIELD_NAME, "a\0b", 3);
  length = frame_finish(&writer);
  CHECK(parse(buffer, length, &request) != 0);
  request_free(&request);
  frame_begin(&writer, FRAME_SANDBOX_STOP);
  frame_text(&writer, FIELD_NAME, "a");
  frame_text(&writer, FIELD_NAME, "a");
  length = frame_finish(&writer);
  CHECK(parse(buffer, length, &request) != 0);
  request_free(&request);
  for (uint64_t for_good = 1; for_good <= 2; for_good++) {
    frame_begin(&writer, FRAME_SANDBOX_STOP);
    frame_text(&writer, FIELD_NAME, "a");
    frame_integer(&writer, FIELD_FOR_GOOD, for_good);
    length = frame_finish(&writer);
    CHECK((parse(buffer, length, &request) == 0) == (for_good == 1));
    CHECK(request.is_for_good == (for_good == 1));
    request_free(&request);
  }
  frame_begin(&writer, FRAME_EXEC); /* not the launcher's */
  length = frame_finish(&writer);
  CHECK(parse(buffer, length, &request) != 0);
  request_free(&request);
}

static bool paths_pass(uint8_t type, const char *path, const char *target, bool has_bytes) {
  static uint8_t buffer[4096];
  struct request request;
  struct frame_writer writer = frame_writer_on(buffer, sizeof buffer);
  frame_begin(&writer, type);
  if (path != NULL) frame_text(&writer, FIELD_PATH, path);
  if (target != NULL) frame_text(&writer, FIELD_TARGET, target);
  if (has_bytes) frame_integer(&writer, FIELD_BYTES_MAX, 64);
  bool passes = parse(buffer, frame_finish(&writer), &request) == 0;
  if (passes) CHECK(strcmp(request.path, path) == 0 && (target == NULL || strcmp(request.target, target) == 0));
  request_free(&request);
  return passes;
}

static bool index_passes(const char *known, const char *index) {
  static uint8_t buffer[4096];
  struct request request;
  struct frame_writer writer = frame_writer_on(buffer, sizeof buffer);
  frame_begin(&writer, FRAME_IMAGE_PACK);
  frame_text(&writer, FIELD_NAME, "box");
  frame_text(&writer, FIELD_UPPER, "sandboxes/box/uppers/1");
  frame_text(&writer, FIELD_UPPER_KIND, "directory");
  frame_text(&writer, FIELD_PATH, "sandboxes/box/snapshots/a.squashfs");
  frame_integer(&writer, FIELD_BYTES_MAX, 64);
  if (known != NULL) frame_text(&writer, FIELD_KNOWN, known);
  if (index != NULL) frame_text(&writer, FIELD_INDEX, index);
  bool passes = parse(buffer, frame_finish(&writer), &request) == 0;
  if (passes) CHECK((request.known != NULL) == (known != NULL) && (request.index != NULL) == (index != NULL));
  request_free(&request);
  return passes;
}

/* Trees that become tars, and tars that become images. */
static void check_tars(void) {
  CHECK(index_passes(NULL, NULL) && index_passes("sandboxes/box/indexes/1-2-3", "sandboxes/box/indexes/new"));
  CHECK(!index_passes("../1-2-3", "sandboxes/box/indexes/new") && !index_passes(NULL, "/etc/new"));
  CHECK(paths_pass(FRAME_IMAGE_PACK_TAR, "tmp/a.tar", "modules/a.squashfs", true));
  CHECK(!paths_pass(FRAME_IMAGE_PACK_TAR, "tmp/a.tar", "modules/a.squashfs", false));
  CHECK(!paths_pass(FRAME_IMAGE_PACK_TAR, "tmp/a.tar", "../a.squashfs", true));
  CHECK(!paths_pass(FRAME_IMAGE_PACK_TAR, "/tmp/a.tar", "modules/a.squashfs", true));
  CHECK(!paths_pass(FRAME_IMAGE_PACK_TAR, "tmp/a.tar", NULL, true));
  CHECK(paths_pass(FRAME_TREE_TAR, "layers/abc", NULL, false));
  CHECK(!paths_pass(FRAME_TREE_TAR, "layers/../x", NULL, false));
  CHECK(!paths_pass(FRAME_TREE_TAR, NULL, NULL, false));
  CHECK(!paths_pass(FRAME_TREE_TAR, "layers/abc", "layers/x", false));
  CHECK(!paths_pass(FRAME_TREE_TAR, "layers/abc", NULL, true));
}

static bool mount_passes(const char *text, int count) {
  static uint8_t buffer[16384];
  struct request request;
  struct frame_writer writer = frame_writer_on(buffer, sizeof buffer);
  frame_begin(&writer, FRAME_MOUNT_ATTACH);
  frame_text(&writer, FIELD_NAME, "box");
  for (int i = 0; i < count; i++) frame_text(&writer, FIELD_MOUNT, text);
  bool passes = parse(buffer, frame_finish(&writer), &request) == 0;
  if (passes) CHECK(request.mount_count == (size_t)count && strcmp(request.mounts[0].target, "data/x") == 0);
  request_free(&request);
  return passes;
}

static void check_mounts(void) {
  static const char *const malformed[] = {
      "",
      "rw",
      "rw\nimage\n-\n/volumes/v/files",
      "rw\nimage\n-\n/volumes/v/files\n/data/x\n",
      "wr\nimage\n-\n/volumes/v/files\n/data/x",
      "rw\nvolume\n-\n/volumes/v/files\n/data/x",
      "rw\nimage\n-\nvolumes/v/files\n/data/x",
      "rw\nimage\n-\n/volumes/../files\n/data/x",
      "rw\nimage\n-\n/volumes/v/files\ndata/x",
      "rw\nimage\n-\n/volumes/v/files\n/data//x",
      "ro\nhost\n1:2\n/\n/data/x",
      "ro\nhost\n1:2\n/srv\n/",
      "ro\nhost\n1:2\n/srv\n/data/../x",
      "ro\nhost\n1:2\n/srv\n/data/x\n",
      "ro\nhost\n1:2\n/srv\n/data/x\n.env\n../.env",
      "ro\nhost\n1:2\n/srv\n/data/x\n/.env",
      "ro\ndirectory\n-\n/volumes/v/files\n/data/x\n.env",
  };
  CHECK(mount_passes("rw\nimage\n-\n/volumes/v/files\n/data/x", 1));
  CHECK(mount_passes("ro\nhost\n1:2\n/srv/data\n/data/x", MOUNTS_MAX));
  CHECK(!mount_passes("ro\nhost\n1:2\n/srv/data\n/data/x", MOUNTS_MAX + 1));
  CHECK(mount_passes("ro\nhost\n1:2\n/srv/data\n/data/x\n.env\nconfig/keys.json", 2));
  for (size_t i = 0; i < sizeof malformed / sizeof malformed[0]; i++) CHECK(!mount_passes(malformed[i], 1));
}

static bool box_passes(const char *place, bool has_layers, bool has_user) {
  static uint8_t buffer[65536];
  struct request request;
  size_t length = start_request(buffer, sizeof buffer, "layers/x", has_layers ? 1 : 0);
  struct frame_writer writer = frame_writer_on(buffer + length, sizeof buffer - length);
  frame_begin(&writer, FRAME_SANDBOX_START);
  if (has_user) frame_integer(&writer, FIELD_UID, 1000);
  if (has_user) frame_integer(&writer, FIELD_GID, 100);
  frame_text(&writer, FIELD_MOUNT, place);
  size_t more = frame_finish(&writer) - FRAME_HEADER_BYTES;
  memmove(buffer + length, buffer + length + FRAME_HEADER_BYTES, more);
  bool passes = parse(buffer, length + more, &request) == 0;
  bool is_whole = !passes || (request.is_box == has_user && (!has_user || (request.user == 1000 && request.group == 100)));
  request_free(&request);
  return passes && is_whole;
}

static void check_places(void) {
  static const char *const places[] = {"ro\nbind\n1:2\n/usr\n/usr",     "rw\noverlay\n1:2\n/home/u/x\n/home/u/x",
                                       "rw\nprivate\nuser\n/\n/home/u", "ro\nwhiteout\n-\n/\n/home/u/x/.env",
                                       "ro\ndeny\n-\n/\n/etc/shadow",    "ro\nfile\n-\n/sandboxes/a/masks/0\n/home/u/x/.env",
                                       "ro\nlink\n-\n/usr/bin\n/bin",
                                       "ro\ndevice\n1:2:3\n/dev/dri/renderD128\n/dev/dri/renderD128"};
  static const char *const malformed[] = {"ro\nbind\n1:2\n/\n/usr", "rw\nprivate\nuser\n/x\n/home/u", "ro\nlink\n-\n/\n/bin",
                                          "ro\nbind\n1:2\n/usr\n/",  "ro\nfile\n-\n/../x\n/y",
                                          "ro\ndevice\n1:2:3\n/x\n/x",  "ro\ndevice\n1:2:3\n/dev/x\n/dev/y",
                                          "ro\ndevice\n1:2:3\n/dev/../x\n/dev/../x"};
  for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
    CHECK(box_passes(places[i], false, true));
    CHECK(!box_passes(places[i], true, false)); /* Layers have no places of the host. */
    CHECK(!box_passes(places[i], true, true));
    CHECK(!box_passes(places[i], false, false));
  }
  for (size_t i = 0; i < sizeof malformed / sizeof malformed[0]; i++) CHECK(!box_passes(malformed[i], false, true));
}

/* Behind each: where the sandbox's own part of it lies. Of layers alone, and never what speaks with the host or is its own link. */
static void check_own_places(void) {
  static const char *const places[] = {"rw\nbind\n1:2\n/srv/x\n/work\nmnt_1", "rw\noverlay\n1:2\n/srv/x\n/work\nmnt_1",
                                       "rw\nprivate\nroot\n/\n/work/a\nmnt_1/a", "ro\nwhiteout\n-\n/\n/work/.env\nmnt_1/.env",
                                       "ro\ndeny\n-\n/\n/work/a\nmnt_1/a", "ro\nfile\n-\n/sandboxes/a/.meta/m\n/work/a\nmnt_1/a"};
  static const char *const malformed[] = {"ro\nbind\n1:2\n/srv/x\n/work\n", "ro\nbind\n1:2\n/srv/x\n/work\n/mnt_1",
                                          "ro\nbind\n1:2\n/srv/x\n/work\n..", "ro\nbind\n1:2\n/srv/x\n/work\nmnt_1/../../data",
                                          "ro\nbind\n1:2\n/srv/x\n/work\nmnt_1\nmnt_2", "rw\nfile\n-\n/sandboxes/a/.meta/m\n/work/a\nmnt_1/a",
                                          "ro\nlink\n-\n/usr/bin\n/work/a\nmnt_1/a", "ro\nsocket\n1:2\n/run/x\n/work/a\nmnt_1/a",
                                          "ro\ndevice\n1:2:3\n/dev/dri/renderD128\n/dev/dri/renderD128\nmnt_1"};
  for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
    CHECK(box_passes(places[i], true, false));
    CHECK(!box_passes(places[i], false, true)); /* A box has one part. */
    CHECK(!mount_passes(places[i], 1));         /* Of a start. */
  }
  for (size_t i = 0; i < sizeof malformed / sizeof malformed[0]; i++) CHECK(!box_passes(malformed[i], true, false));
}

static bool vmm_passes(const char *mount, uint64_t vmm, bool has_user) {
  static uint8_t buffer[65536];
  struct request request;
  size_t length = start_request(buffer, sizeof buffer, "layers/x", has_user ? 0 : 1);
  struct frame_writer writer = frame_writer_on(buffer + length, sizeof buffer - length);
  frame_begin(&writer, FRAME_SANDBOX_START);
  if (has_user) frame_integer(&writer, FIELD_UID, 1000);
  if (has_user) frame_integer(&writer, FIELD_GID, 100);
  frame_integer(&writer, FIELD_VMM, vmm);
  frame_text(&writer, FIELD_MOUNT, mount);
  size_t more = frame_finish(&writer) - FRAME_HEADER_BYTES;
  memmove(buffer + length, buffer + length + FRAME_HEADER_BYTES, more);
  bool passes = parse(buffer, length + more, &request) == 0;
  if (passes) CHECK(request.is_vmm == (vmm == 1) && !request.is_box);
  request_free(&request);
  return passes;
}

/* Returns the set, or -1. */
static int devices_of(const char *device, const char *other, uint64_t vmm) {
  static uint8_t buffer[65536];
  struct request request;
  size_t length = start_request(buffer, sizeof buffer, "layers/x", 1);
  struct frame_writer writer = frame_writer_on(buffer + length, sizeof buffer - length);
  frame_begin(&writer, FRAME_SANDBOX_START);
  frame_integer(&writer, FIELD_VMM, vmm);
  frame_text(&writer, FIELD_VMM_DEVICE, device);
  if (other != NULL) frame_text(&writer, FIELD_VMM_DEVICE, other);
  size_t more = frame_finish(&writer) - FRAME_HEADER_BYTES;
  memmove(buffer + length, buffer + length + FRAME_HEADER_BYTES, more);
  int found = parse(buffer, length + more, &request) == 0 ? (int)request.vmm_devices : -1;
  request_free(&request);
  return found;
}

static void check_vmm_devices(void) {
  CHECK(devices_of("tun", NULL, 1) == 1 << VMM_DEVICE_TUN && devices_of("kvm", "tun", 1) == (1 << VMM_DEVICE_TUN | 1 << VMM_DEVICE_KVM));
  CHECK(devices_of("mem", NULL, 1) < 0 && devices_of("", NULL, 1) < 0 && devices_of("net/tun", NULL, 1) < 0);
  CHECK(devices_of("tun", NULL, 0) < 0); /* Of no other sandbox. */
}

static void check_vmm(void) {
  static const char file[] = "ro\nfile\n-\n/modules/x.squashfs\n/drives/l0";
  static const char volume[] = "rw\ndirectory\n-\n/volumes/v/files\n/data";
  static const char *const refused[] = {"rw\nfile\n-\n/modules/x\n/drives/l0", "ro\nfile\n-\n/../x\n/drives/l0",
                                        "ro\nbind\n1:2\n/usr\n/usr",           "ro\nlink\n-\n/usr/bin\n/bin",
                                        "ro\ndeny\n-\n/\n/etc/shadow"};
  CHECK(vmm_passes(file, 1, false) && vmm_passes(volume, 1, false));
  CHECK(!vmm_passes(file, 0, false) && vmm_passes(volume, 0, false) && !vmm_passes(file, 2, false));
  CHECK(!vmm_passes(file, 1, true));
  for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) CHECK(!vmm_passes(refused[i], 1, false));
}

static bool dial_passes(uint8_t type, size_t address_bytes, uint64_t port, uint64_t timeout_ms) {
  uint8_t buffer[256];
  struct dial_request request;
  struct frame_writer writer = frame_writer_on(buffer, sizeof buffer);
  frame_begin(&writer, type);
  frame_integer(&writer, FIELD_INSTANCE, 7);
  frame_integer(&writer, FIELD_CONNECTION, 4294967297);
  if (type == FRAME_DIAL_OUT) {
    frame_bytes(&writer, FIELD_ADDRESS, "abcdefghijklmnop", address_bytes);
    frame_integer(&writer, FIELD_PORT, port);
    frame_integer(&writer, FIELD_TIMEOUT_MS, timeout_ms);
  }
  size_t length = frame_finish(&writer);
  bool passes = dial_request_parse(&request, type, buffer + FRAME_HEADER_BYTES, length - FRAME_HEADER_BYTES);
  if (passes) CHECK(request.instance == 7 && request.connection == 4294967297 && request.timeout_ms <= DIAL_MS_MAX);
  if (passes && type == FRAME_DIAL_OUT) CHECK(request.port == port && request.address[0] == 'a');
  return passes;
}

static void check_dials(void) {
  CHECK(dial_passes(FRAME_DIAL_OUT, 4, 443, 1000) && dial_passes(FRAME_DIAL_OUT, 16, 65535, INTEGER_MAX));
  CHECK(dial_passes(FRAME_STREAM_OUT, 0, 0, 0));
  CHECK(!dial_passes(FRAME_DIAL_OUT, 5, 443, 1000) && !dial_passes(FRAME_DIAL_OUT, 0, 443, 1000));
  CHECK(!dial_passes(FRAME_DIAL_OUT, 4, 0, 1000) && !dial_passes(FRAME_DIAL_OUT, 4, 65536, 1000));
  CHECK(!dial_passes(FRAME_EGRESS_ATTACH, 0, 0, 0));
}

int main(void) {
  check_dials();
  check_paths();
  check_mount_table();
  check_complaints();
  check_requests();
  check_tars();
  check_mounts();
  check_places();
  check_own_places();
  check_vmm();
  check_vmm_devices();
  return check_summary();
}

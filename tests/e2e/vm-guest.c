/*
 * The first program of a virtual machine in a test: loads the modules of /modules in their order, mounts the first disk as a
 * squashfs, reaches for the host by vsock, and says on the console what came of it. Its words are a test's, not an init's.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/vm_sockets.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

static void say(const char *what, int result) {
  printf("%s: %s\n", what, result < 0 ? strerror(errno) : "ok");
}

int main(void) {
  const char *directories[] = {"/dev", "/sys", "/module"};
  for (int i = 0; i < 3; i += 1) mkdir(directories[i], 0755);
  mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
  mount("sysfs", "/sys", "sysfs", 0, NULL);
  int console = open("/dev/console", O_RDWR);
  for (int i = 0; i < 3; i += 1) dup2(console, i);
  setvbuf(stdout, NULL, _IOLBF, 0);
  glob_t found;
  glob("/modules/*.ko", 0, NULL, &found);
  for (size_t i = 0; i < found.gl_pathc; i += 1) {
    int file = open(found.gl_pathv[i], O_RDONLY);
    say(found.gl_pathv[i], syscall(SYS_finit_module, file, "", 0));
    close(file);
  }
  /* Disks are found a moment later. */
  for (int i = 0; i < 500 && access("/dev/vda", F_OK) != 0; i += 1) usleep(10000);
  char serial[32] = "";
  int file = open("/sys/block/vda/serial", O_RDONLY);
  if (read(file, serial, sizeof serial - 1) < 0) say("serial", -1);
  printf("serial: %s\n", serial);
  say("mount", mount("/dev/vda", "/module", "squashfs", MS_RDONLY, NULL));
  say("about", access("/module/boot/about.json", R_OK));
  say("eth0", access("/sys/class/net/eth0", F_OK));
  struct sockaddr_vm host = {.svm_family = AF_VSOCK, .svm_cid = VMADDR_CID_HOST, .svm_port = 1};
  say("vsock", connect(socket(AF_VSOCK, SOCK_STREAM, 0), (struct sockaddr *)&host, sizeof host));
  struct utsname name;
  uname(&name);
  printf("kernel: %s\n", name.release);
  reboot(RB_AUTOBOOT);
  return 1;
}

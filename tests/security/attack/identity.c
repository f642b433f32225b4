/* Becoming more than one was: capabilities, set-id programs, ids, forged attributes. */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

/* With any of these root inside could change what the sandbox shares with the host. */
static const struct {
  const char *name;
  int bit;
} dangerous[] = {
    {"dac_read_search", CAP_DAC_READ_SEARCH}, {"net_admin", CAP_NET_ADMIN},   {"net_raw", CAP_NET_RAW},
    {"sys_module", CAP_SYS_MODULE},           {"sys_rawio", CAP_SYS_RAWIO},   {"sys_ptrace", CAP_SYS_PTRACE},
    {"sys_pacct", CAP_SYS_PACCT},             {"sys_admin", CAP_SYS_ADMIN},   {"sys_boot", CAP_SYS_BOOT},
    {"sys_nice", CAP_SYS_NICE},               {"sys_resource", CAP_SYS_RESOURCE}, {"sys_time", CAP_SYS_TIME},
    {"mac_override", CAP_MAC_OVERRIDE},       {"mac_admin", CAP_MAC_ADMIN},   {"syslog", CAP_SYSLOG},
    {"wake_alarm", CAP_WAKE_ALARM},           {"audit_control", CAP_AUDIT_CONTROL}, {"perfmon", 38},
    {"bpf", 39},                              {"checkpoint_restore", 40},
};

static int hold_capabilities(int argc, char **argv) {
  (void)argc, (void)argv;
  for (size_t index = 0; index < sizeof dangerous / sizeof dangerous[0]; index++) {
    if (prctl(PR_CAPBSET_READ, dangerous[index].bit, 0, 0, 0) == 1) {
      return breach("CAP_%s is in the bounding set", dangerous[index].name);
    }
  }
  return held("no dangerous capability");
}

static int add_capability(int argc, char **argv) {
  (void)argc, (void)argv;
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct sets[2];
  if (syscall(SYS_capget, &header, sets) != 0) return untried("capget: %s", strerror(errno));
  sets[0].permitted |= 1U << CAP_SYS_ADMIN;
  sets[0].effective |= 1U << CAP_SYS_ADMIN;
  return refused("capset", syscall(SYS_capset, &header, sets));
}

static int may_gain(int argc, char **argv) {
  (void)argc, (void)argv;
  if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) return held("no_new_privs is set");
  return breach("no_new_privs is not set");
}

static int without_filter(int argc, char **argv) {
  (void)argc, (void)argv;
  FILE *status = fopen("/proc/self/status", "re");
  char line[256];
  int mode = -1;
  while (status != NULL && fgets(line, sizeof line, status) != NULL) {
    if (sscanf(line, "Seccomp: %d", &mode) == 1) break;
  }
  if (status != NULL) fclose(status);
  return mode == 2 ? held("a filter is loaded") : breach("seccomp mode is %d", mode);
}

static int drop_to(unsigned id) { return setgroups(0, NULL) == 0 && setgid(id) == 0 && setuid(id) == 0; }

/* Run by the set-id program itself: who are we? */
static int show_identity(int argc, char **argv) {
  (void)argc, (void)argv;
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct sets[2] = {0};
  syscall(SYS_capget, &header, sets);
  if (geteuid() == 0) return breach("an ordinary user became root");
  if (sets[0].effective != 0 || sets[1].effective != 0) return breach("gained capabilities %x", sets[0].effective);
  return held("still uid %u without capabilities", geteuid());
}

static int run_as_user(const char *program) {
  fflush(stdout);
  pid_t child = fork();
  if (child < 0) return untried("fork: %s", strerror(errno));
  if (child == 0) {
    if (!drop_to(1000)) _exit(untried("no second user id here: %s", strerror(errno)));
    execl(program, program, "identity", (char *)NULL);
    _exit(held("%s: %s", program, strerror(errno)));
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : untried("the program was killed");
}

static int copy_self(const char *target) {
  int from = open("/proc/self/exe", O_RDONLY);
  int to = open(target, O_WRONLY | O_CREAT | O_TRUNC, 0755);
  char buffer[65536];
  for (ssize_t got = 0; (got = read(from, buffer, sizeof buffer)) > 0;) {
    if (write(to, buffer, (size_t)got) != got) return -1;
  }
  close(from);
  return close(to);
}

static int set_user_id(int argc, char **argv) {
  (void)argc, (void)argv;
  if (copy_self("/tmp/attack-suid") != 0 || chmod("/tmp/attack-suid", 04755) != 0) {
    return held("chmod: %s", strerror(errno));
  }
  int outcome = run_as_user("/tmp/attack-suid");
  unlink("/tmp/attack-suid");
  return outcome;
}

/* Of a program of its own, or of PATH, where whoever starts it outside would have them. */
static int set_file_capabilities(int argc, char **argv) {
  const char *path = argc > 1 ? argv[1] : "/tmp/attack-caps";
  struct vfs_cap_data data = {.magic_etc = VFS_CAP_REVISION_2 | VFS_CAP_FLAGS_EFFECTIVE,
                              .data = {{.permitted = 1U << CAP_CHOWN}}};
  if (copy_self(path) != 0 || setxattr(path, "security.capability", &data, sizeof data, 0) != 0) {
    return held("setcap: %s", strerror(errno));
  }
  int outcome = argc > 1 ? breach("gave %s capabilities", path) : run_as_user(path);
  unlink(path);
  return outcome;
}

/* A set-id program that is there already, e.g. from a hostile image. */
static int run_set_user_id(int argc, char **argv) { return argc > 1 ? run_as_user(argv[1]) : 2; }

/* Attributes with which overlayfs would take a file's content or a directory's entries from elsewhere. */
static int forge_overlay(int argc, char **argv) {
  if (argc < 3) return 2;
  mkdir("forged", 0755);
  if (setxattr("forged", argv[1], argv[2], strlen(argv[2]), 0) != 0) return held("setxattr: %s", strerror(errno));
  return breach("set %s", argv[1]);
}

/* Whoever may write his map of ids, here or in a namespace of his own, chooses who he is. */
static int map_ids(int argc, char **argv) {
  (void)argc, (void)argv;
  if (unshare(CLONE_NEWUSER) != 0) printf("unshare: %s\n", strerror(errno));
  int map = open("/proc/self/uid_map", O_WRONLY);
  if (map < 0) return held("uid_map: %s", strerror(errno));
  if (write(map, "0 0 1\n", 6) > 0) return breach("wrote uid_map");
  return held("uid_map: %s", strerror(errno));
}

/* An id outside the sandbox's range would be somebody on the host. */
static int foreign_id(int argc, char **argv) {
  (void)argc, (void)argv;
  int file = open("foreign", O_WRONLY | O_CREAT, 0600);
  if (file < 0) return untried("no file here: %s", strerror(errno));
  close(file);
  /* Where changing owners is only pretended (single-id mode), what counts is who owns it then. */
  long result = chown("foreign", 70000, 70000);
  struct stat now;
  int is_foreign = result == 0 && stat("foreign", &now) == 0 && now.st_uid == 70000;
  int error = errno;
  unlink("foreign");
  return is_foreign ? breach("owns a file as uid 70000") : held("chown 70000: %s", strerror(error));
}

const struct attack identity_attacks[] = {
    {"capabilities", hold_capabilities},
    {"add-capability", add_capability},
    {"new-privileges", may_gain},
    {"no-filter", without_filter},
    {"identity", show_identity},
    {"set-user-id", set_user_id},
    {"file-capabilities", set_file_capabilities},
    {"run-set-user-id", run_set_user_id},
    {"forge-overlay", forge_overlay},
    {"map-ids", map_ids},
    {"foreign-id", foreign_id},
    {0},
};

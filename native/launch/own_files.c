/* What daemon and egress process may open: see own_files.h. */
#include "launch/own_files.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "launch/host_filter.h"
#include "launch/ids.h"
#include "launch/landlock.h"

/* What every program of the host reads: libraries, certificates, resolvers, wherever distributions have them. */
static const struct landlock_rule of_the_host[] = {
    {"/usr", LANDLOCK_READ, false}, {"/lib", LANDLOCK_READ | LANDLOCK_EXECUTE, false},
    {"/lib64", LANDLOCK_READ | LANDLOCK_EXECUTE, false}, {"/usr/lib", LANDLOCK_EXECUTE, false},
    {"/usr/lib64", LANDLOCK_EXECUTE, false}, {"/opt", LANDLOCK_READ, false},
    {"/nix/store", LANDLOCK_READ | LANDLOCK_EXECUTE, false}, {"/gnu/store", LANDLOCK_READ | LANDLOCK_EXECUTE, false},
    {"/home/linuxbrew/.linuxbrew", LANDLOCK_READ | LANDLOCK_EXECUTE, false}, {"/snap", LANDLOCK_READ, false},
    {"/etc", LANDLOCK_READ, false}, {"/etc/resolv.conf", LANDLOCK_READ, false}, {"/etc/hosts", LANDLOCK_READ, false},
    /* Where that file leads: it is replaced by another when the network changes. */
    {"/run/systemd/resolve", LANDLOCK_READ, false}, {"/run/resolvconf", LANDLOCK_READ, false},
    {"/run/NetworkManager", LANDLOCK_READ, false}, {"/run/connman", LANDLOCK_READ, false},
    {"/var/lib/ca-certificates", LANDLOCK_READ, false},
    /* The kernel keeps the processes that are not held so from being looked into. */
    {"/proc", LANDLOCK_READ, false}, {"/sys", LANDLOCK_READ, false},
    {"/dev/null", LANDLOCK_DEVICE, true}, {"/dev/zero", LANDLOCK_DEVICE, false}, {"/dev/full", LANDLOCK_DEVICE, false},
    {"/dev/random", LANDLOCK_DEVICE, false}, {"/dev/urandom", LANDLOCK_DEVICE, false}, {"/dev/tty", LANDLOCK_DEVICE, false},
};

static int allow_all(int rules, const struct landlock_rule *list, size_t count, struct fault *fault) {
  for (size_t i = 0; i < count; i++) {
    if (landlock_allow(rules, &list[i], fault) != 0) return -1;
  }
  return 0;
}

/* The directory of that file: another of its name may take its place. */
static void allow_beside(const char *file, char *beside, struct landlock_rule *rule) {
  *rule = (struct landlock_rule){"", 0, false};
  if (file == NULL || realpath(file, beside) == NULL) return;
  char *slash = strrchr(beside, '/');
  slash[slash == beside] = '\0';
  *rule = (struct landlock_rule){beside, LANDLOCK_READ, false};
}

static int enforce(unsigned refusals, const struct landlock_rule *own, size_t count, struct fault *fault) {
  cleanup_fd rules = landlock_begin(refusals, fault);
  if (rules < 0 || allow_all(rules, of_the_host, sizeof of_the_host / sizeof of_the_host[0], fault) != 0 ||
      allow_all(rules, own, count, fault) != 0) {
    return -1;
  }
  return landlock_enforce(rules, fault);
}

int own_files_daemon(const struct own_files *files, struct fault *fault) {
  if (landlock_abi() < LANDLOCK_ABI_RENAMES) return 0;
  char launch[PATH_MAX];
  if (snprintf(launch, sizeof launch, "%s/native/build", files->app) >= PATH_MAX) {
    return fault_set(fault, "launch_failed", "the path of the project is too long");
  }
  char beside[PATH_MAX];
  char login[PATH_MAX];
  char vmm[PATH_MAX];
  struct landlock_rule own[] = {{files->data, LANDLOCK_READ | LANDLOCK_WRITE, true},
                                {files->run, LANDLOCK_READ | LANDLOCK_WRITE, true},
                                {files->app, LANDLOCK_READ, true},
                                {launch, LANDLOCK_EXECUTE, false}, /* It starts the egress process by it. */
                                {files->program, LANDLOCK_READ | LANDLOCK_EXECUTE, true},
                                {"", 0, false},
                                {"", 0, false},
                                {"", 0, false}};
  allow_beside(files->vmm, vmm, &own[7]);
  allow_beside(files->login, login, &own[6]);
  allow_beside(files->extra, beside, &own[5]); /* The egress process opens no more than the daemon, whose child it is. */
  return enforce(LANDLOCK_NO_ABSTRACT, own, sizeof own / sizeof own[0], fault);
}

int own_files_egress(const struct own_files *files, struct fault *fault) {
  static const char *const written[] = {"egress", "log", "proxy-ca"};
  enum { WRITTEN = sizeof written / sizeof written[0] };
  char paths[WRITTEN][PATH_MAX];
  char beside[PATH_MAX];
  struct landlock_rule own[WRITTEN + 5] = {
      {files->data, LANDLOCK_READ, true}, /* The operator's files are replaced by others of their names. */
      {files->run, LANDLOCK_READ | LANDLOCK_SOCKETS, true},
      {files->app, LANDLOCK_READ, true},
      {files->program, LANDLOCK_READ | LANDLOCK_EXECUTE, true}};
  size_t count = 4;
  if (landlock_abi() < LANDLOCK_ABI_FILES) return 0;
  for (size_t i = 0; i < WRITTEN; i++) {
    if (snprintf(paths[i], PATH_MAX, "%s/%s", files->data, written[i]) >= PATH_MAX) {
      return fault_set(fault, "launch_failed", "the path of the data directory is too long");
    }
    own[count++] = (struct landlock_rule){paths[i], LANDLOCK_READ | LANDLOCK_WRITE, true};
  }
  allow_beside(files->extra, beside, &own[count++]);
  return enforce(LANDLOCK_NO_LISTENING | LANDLOCK_NO_SIGNALS | LANDLOCK_NO_ABSTRACT, own, count, fault);
}

int own_files_gateway(const struct own_files *files, struct fault *fault) {
  const struct landlock_rule own[] = {{files->app, LANDLOCK_READ, true},
                                      {files->program, LANDLOCK_READ | LANDLOCK_EXECUTE, true}};
  if (landlock_abi() < LANDLOCK_ABI_FILES) return 0;
  return enforce(LANDLOCK_NO_LISTENING | LANDLOCK_NO_SIGNALS | LANDLOCK_NO_ABSTRACT, own, sizeof own / sizeof own[0], fault);
}

static bool parse(int argc, char **argv, struct own_files *files, char ***command) {
  int i = 2;
  for (; i + 1 < argc && strcmp(argv[i], "--") != 0; i += 2) {
    if (strcmp(argv[i], "--data") == 0) files->data = argv[i + 1];
    else if (strcmp(argv[i], "--run") == 0) files->run = argv[i + 1];
    else if (strcmp(argv[i], "--app") == 0) files->app = argv[i + 1];
    else if (strcmp(argv[i], "--read") == 0) files->extra = argv[i + 1];
    else return false;
  }
  if (i + 1 >= argc || files->app == NULL) return false;
  *command = argv + i + 1;
  files->program = argv[i + 1];
  return true;
}

static int execute(char **command) {
  execv(command[0], command);
  fprintf(stderr, "squash-launch: can't execute \"%s\": %s\n", command[0], strerror(errno));
  return 127;
}

int own_files_egress_main(int argc, char **argv) {
  struct own_files files = {0};
  struct fault fault = {0};
  char **command = NULL;
  if (!parse(argc, argv, &files, &command) || files.data == NULL || files.run == NULL) {
    fputs("usage: squash-launch egress --data DIR --run DIR --app DIR [--read FILE] -- PROGRAM…\n", stderr);
    return 2;
  }
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || own_files_egress(&files, &fault) != 0 ||
      host_filter_load(HOST_FILTER_EGRESS, &fault) != 0) {
    fprintf(stderr, "squash-launch: %s\n", fault.text);
    return 1;
  }
  return execute(command);
}

/* Capabilities of the daemon's namespace count against what lies in it: its files, its other ids. */
static int drop_capabilities(void) {
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct none[2] = {{0}};
  return (int)syscall(SYS_capset, &header, none);
}

/* Where the id that owns nothing can't reach the program, in somebody's home, or there is but one id, this one is kept. */
static int become_nobody(const struct own_files *files, struct fault *fault) {
  uid_t id = RELAY_ID;
  bool is_changed = setgroups(0, NULL) == 0 && setresgid(id, id, 0) == 0 && setresuid(id, id, 0) == 0;
  bool is_fit = is_changed && faccessat(AT_FDCWD, files->program, X_OK, AT_EACCESS) == 0 &&
                faccessat(AT_FDCWD, files->app, R_OK | X_OK, AT_EACCESS) == 0;
  if (!is_fit) id = 0;
  /* Back first, where it is so: whoever is id 0 again may be of group 0 again. */
  bool is_done = is_fit ? setresgid(id, id, id) == 0 && setresuid(id, id, id) == 0
                        : setresuid(0, 0, 0) == 0 && setresgid(0, 0, 0) == 0;
  if (!is_done) return fault_set(fault, "launch_failed", "can't become id %u", id);
  if (!is_fit) fputs("squash-launch: the gateway of SSH keeps the daemon's id: no other can open the program\n", stderr);
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  return 0;
}

int own_files_gateway_main(int argc, char **argv) {
  struct own_files files = {0};
  struct fault fault = {0};
  char **command = NULL;
  if (!parse(argc, argv, &files, &command)) {
    fputs("usage: squash-launch gateway --app DIR -- PROGRAM…\n", stderr);
    return 2;
  }
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || become_nobody(&files, &fault) != 0 || drop_capabilities() != 0 ||
      own_files_gateway(&files, &fault) != 0 || host_filter_load(HOST_FILTER_GATEWAY, &fault) != 0) {
    fprintf(stderr, "squash-launch: %s\n", fault.text);
    return 1;
  }
  return execute(command);
}

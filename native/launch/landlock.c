/* The kernel's rules about files: see landlock.h. */
#include "launch/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/descriptor.h"

/* <linux/landlock.h> of the kernels that we build on lacks the later ones. */
enum { CREATE_RULESET = 444, ADD_RULE = 445, RESTRICT_SELF = 446 };
enum { CREATE_VERSION = 1, RULE_PATH_BENEATH = 1 };

enum file_right {
  EXECUTE = 1 << 0,
  WRITE_FILE = 1 << 1,
  READ_FILE = 1 << 2,
  READ_DIR = 1 << 3,
  REMOVE_DIR = 1 << 4,
  REMOVE_FILE = 1 << 5,
  MAKE_DIR = 1 << 7,
  MAKE_REG = 1 << 8,
  MAKE_SOCK = 1 << 9,
  MAKE_FIFO = 1 << 10,
  MAKE_SYM = 1 << 12,
  REFER = 1 << 13,
  TRUNCATE = 1 << 14,
  IOCTL_DEV = 1 << 15,
};
enum { OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV };
enum { BIND_TCP = 1, SCOPE_ABSTRACT = 1, SCOPE_SIGNAL = 2 };
enum { ABI_TRUNCATE = 3, ABI_TCP = 4, ABI_DEVICES = 5, ABI_SCOPES = 6 };

struct ruleset_attributes {
  uint64_t files;
  uint64_t tcp;
  uint64_t scopes;
};
struct path_attributes {
  uint64_t access;
  int32_t parent;
} __attribute__((packed));

int landlock_abi(void) {
  long version = syscall(CREATE_RULESET, NULL, 0, CREATE_VERSION);
  return version < 0 ? 0 : (int)version;
}

/* Every right of files that this kernel knows. */
static uint64_t known(int abi) {
  if (abi < LANDLOCK_ABI_RENAMES) return REFER - 1;
  return abi < ABI_TRUNCATE ? TRUNCATE - 1 : abi < ABI_DEVICES ? IOCTL_DEV - 1 : 2 * IOCTL_DEV - 1;
}

int landlock_begin(unsigned refusals, struct fault *fault) {
  int abi = landlock_abi();
  struct ruleset_attributes attributes = {.files = known(abi)};
  if (abi >= ABI_TCP) attributes.tcp = (refusals & LANDLOCK_NO_LISTENING) != 0 ? BIND_TCP : 0U;
  if (abi >= ABI_SCOPES) {
    attributes.scopes = ((refusals & LANDLOCK_NO_ABSTRACT) != 0 ? SCOPE_ABSTRACT : 0U) |
                        ((refusals & LANDLOCK_NO_SIGNALS) != 0 ? SCOPE_SIGNAL : 0U);
  }
  /* An older kernel takes the longer structure as long as what it does not know is 0. */
  int rules = (int)syscall(CREATE_RULESET, &attributes, sizeof attributes, 0);
  return rules >= 0 ? rules : fault_set(fault, "launch_failed", "can't make rules about files");
}

static uint64_t rights(unsigned access) {
  uint64_t result = 0;
  if ((access & LANDLOCK_READ) != 0) result |= READ_FILE | READ_DIR;
  if ((access & LANDLOCK_EXECUTE) != 0) result |= EXECUTE;
  if ((access & LANDLOCK_WRITE) != 0) {
    result |= WRITE_FILE | TRUNCATE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | MAKE_SOCK | MAKE_FIFO | MAKE_SYM | REFER;
  }
  if ((access & LANDLOCK_SOCKETS) != 0) result |= MAKE_SOCK | REMOVE_FILE;
  if ((access & LANDLOCK_DEVICE) != 0) result |= READ_FILE | WRITE_FILE | IOCTL_DEV;
  return result;
}

int landlock_allow(int rules, const struct landlock_rule *rule, struct fault *fault) {
  struct stat status;
  cleanup_fd parent = open(rule->path, O_PATH | O_CLOEXEC);
  if (parent < 0 && !rule->is_needed) return 0;
  if (parent < 0 || fstat(parent, &status) != 0) {
    return fault_set(fault, "launch_failed", "can't make a rule about \"%s\"", rule->path);
  }
  struct path_attributes attributes = {.access = rights(rule->access) & known(landlock_abi()), .parent = parent};
  if (!S_ISDIR(status.st_mode)) attributes.access &= OF_FILES;
  if (syscall(ADD_RULE, rules, RULE_PATH_BENEATH, &attributes, 0) == 0) return 0;
  /* What no file system holds (a pipe behind /proc/self/fd) needs no rule. */
  if (errno == EBADFD) return 0;
  return fault_set(fault, "launch_failed", "can't make a rule about \"%s\"", rule->path);
}

int landlock_enforce(int rules, struct fault *fault) {
  if (syscall(RESTRICT_SELF, rules, 0) == 0) return 0;
  return fault_set(fault, "launch_failed", "can't hold a process to its files");
}

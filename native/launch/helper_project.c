/*
 * Project quotas: the file system itself refuses the write that would pass the limit. Runs in the privileged helper.
 *
 * The project's number comes from the upper's inode, so that two uppers that exist at one time never share one and
 * nothing has to be remembered. Processes in a user namespace can't change a file's project.
 */
#include <errno.h>
#include <linux/dqblk_xfs.h>
#include <linux/fs.h>
#include <linux/quota.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "launch/helper.h"
#include "launch/helper_verbs.h"

/* Numbers below belong to the operator's own projects. */
enum { PROJECT_FIRST = 0x40000000, PROJECT_MASK = 0x3fffffff };
#define PROJECT_COMMAND(command) ((unsigned)(command) << 8 | PRJQUOTA)
/* quotactl_fd, from 5.14 on: by descriptor of the file system instead of a device's name. */
#define SYS_QUOTACTL_FD 443
/* What ioctl takes: the C libraries disagree about the sign. */
#ifdef __GLIBC__
typedef unsigned long ioctl_request;
#else
typedef int ioctl_request;
#endif

static int set_quota(int fd, uint32_t project, const struct helper_request *request) {
  struct if_dqblk quota = {.dqb_bhardlimit = request->bytes_max / 1024,
                           .dqb_bsoftlimit = request->bytes_max / 1024,
                           .dqb_ihardlimit = request->inodes_max,
                           .dqb_isoftlimit = request->inodes_max,
                           .dqb_valid = QIF_LIMITS};
  return (int)syscall(SYS_QUOTACTL_FD, fd, PROJECT_COMMAND(Q_SETQUOTA), project, &quota);
}

static int assign(int upper, const char *name, uint32_t project) {
  cleanup_fd fd = openat(upper, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct fsxattr attributes;
  if (fd < 0 || ioctl(fd, (ioctl_request)FS_IOC_FSGETXATTR, &attributes) != 0) return -1;
  attributes.fsx_projid = project;
  attributes.fsx_xflags |= FS_XFLAG_PROJINHERIT;
  return ioctl(fd, (ioctl_request)FS_IOC_FSSETXATTR, &attributes);
}

int helper_project_set(int upper, const struct helper_request *request, struct fault *fault) {
  struct stat status;
  if (fstat(upper, &status) != 0) return fault_set(fault, "launch_failed", "can't look at an upper");
  uint32_t project = PROJECT_FIRST | (uint32_t)(status.st_ino & PROJECT_MASK);
  if (set_quota(upper, project, request) != 0 || assign(upper, "data", project) != 0 ||
      assign(upper, "work", project) != 0 || assign(upper, ".", project) != 0) {
    return fault_set(fault, "launch_failed", "can't set a project quota");
  }
  return 0;
}

void helper_project_ability(int data_fd, struct helper_abilities *abilities) {
  struct if_dqinfo info;
  abilities->has_projects = syscall(SYS_QUOTACTL_FD, data_fd, PROJECT_COMMAND(Q_GETINFO), 0, &info) == 0;
  if (abilities->has_projects) {
    snprintf(abilities->projects_detail, sizeof abilities->projects_detail,
             "the data directory's file system has project quotas");
  } else {
    snprintf(abilities->projects_detail, sizeof abilities->projects_detail,
             "the data directory's file system has no project quotas switched on (%s)", strerror(errno));
  }
}

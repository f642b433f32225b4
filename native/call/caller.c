/* Who calls: see call.h. */
#include "call/call.h"

#include <grp.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { GROUPS_MAX = 512 };

static const char *const namespaces[] = {"user", "mnt", "pid", "net", "ipc", "uts"};

int describe_caller(const char *node, const char *program, char *text, size_t bytes) {
  uid_t uids[3];
  gid_t gids[3], groups[GROUPS_MAX];
  struct stat root;
  const char *const files[] = {node, program};
  if (getresuid(&uids[0], &uids[1], &uids[2]) < 0 || getresgid(&gids[0], &gids[1], &gids[2]) < 0) return -1;
  int count = getgroups(GROUPS_MAX, groups);
  if (count < 0 || stat("/", &root) < 0) return -1;
  FILE *out = fmemopen(text, bytes, "w");
  if (out == NULL) return -1;
  fprintf(out, "%u %u %u %u %u %u root %jx:%jx gains %d filter %d groups", uids[0], uids[1], uids[2], gids[0], gids[1],
          gids[2], (uintmax_t)root.st_dev, (uintmax_t)root.st_ino, prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0),
          prctl(PR_GET_SECCOMP, 0, 0, 0, 0));
  for (int i = 0; i < count; i++) fprintf(out, " %u", groups[i]);
  int failed = 0;
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    struct stat file;
    if (stat(files[i], &file) < 0) failed = 1;
    else fprintf(out, " file %jx:%jx", (uintmax_t)file.st_dev, (uintmax_t)file.st_ino);
  }
  for (size_t i = 0; i < sizeof namespaces / sizeof *namespaces; i++) {
    char path[64], link[64];
    (void)snprintf(path, sizeof path, "/proc/self/ns/%s", namespaces[i]);
    ssize_t length = readlink(path, link, sizeof link);
    if (length < 0) failed = 1;
    else fprintf(out, " %.*s", (int)length, link);
  }
  long end = ftell(out);
  /* What did not fit fails when it is flushed. */
  if (fclose(out) != 0 || failed || end < 0 || (size_t)end >= bytes) return -1;
  return (int)end;
}

_Bool is_own_peer(int socket, pid_t *pid) {
  struct ucred peer;
  socklen_t length = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0 || peer.uid != geteuid()) return 0;
  *pid = peer.pid;
  return 1;
}

/*
 * Which files Squash's own processes open: the daemon and the egress process are held to them where the kernel can
 * (landlock.h). A hijacked one then reads none of a user's other files, leaves nothing behind in them, and starts none of
 * the host's programs. Both keep what everybody of the host may read: programs, libraries, /etc, /proc, /sys.
 */
#ifndef SQUASH_LAUNCH_OWN_FILES_H
#define SQUASH_LAUNCH_OWN_FILES_H
#include "common/fault.h"

struct own_files {
  const char *data;
  const char *run;
  const char *app;
  const char *program; /* what the process is about to become, absolute */
  const char *extra;   /* one more file that it reads, which may be replaced by another of that name, or NULL */
  const char *login;   /* the same, of the daemon alone */
  const char *vmm;     /* the same */
};

/* Data and run directory whole. What it may not, its child, the egress process, may not either. Nothing where every rename would be refused (Linux before 5.19). */
int own_files_daemon(const struct own_files *files, struct fault *fault);
/* `egress/`, `log/` and `proxy-ca/` of the data directory, which it may only read else. Listens on no TCP port, signals nobody. */
int own_files_egress(const struct own_files *files, struct fault *fault);

/* The gateway of SSH opens nothing but programs: neither data nor run directory. Listens on no port but the one it was given, signals nobody. */
int own_files_gateway(const struct own_files *files, struct fault *fault);

/* `squash-launch egress --data D --run R --app A [--read FILE] -- command…`: held to its files, becomes the command. */
int own_files_egress_main(int argc, char **argv);
/* `squash-launch gateway --app A -- command…`: the same, under an id of the daemon's namespace that owns nothing, where that can open the
   program, and without any capability in any case. Killed with the thread that started it. */
int own_files_gateway_main(int argc, char **argv);

#endif

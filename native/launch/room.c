/* Room for image uppers: see room.h. */
#include "launch/room.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/frames.gen.h"
#include "common/clock.h"
#include "launch/helper.h"
#include "launch/log.h"
#include "launch/sandbox.h"
#include "launch/upper_errors.h"
#include "launch/worker.h"

enum {
  LOOK_MS_MIN = 5,
  LOOK_MS_MAX = 1000,
  /* While something is withheld: what was freed is handed out again, and who grows gets more. */
  TIGHT_LOOK_MS = 100,
  /* New images are looked at together: a hundred starts would else look at a hundred images each. */
  NEW_LOOK_MS = 25,
  FLUSH_MS = 2000,
};
/* No disk of today takes more: so much less room is sooner than the next look. */
#define WRITTEN_BYTES_PER_MS (UINT64_C(4) << 20)
#define MIB (UINT64_C(1) << 20)
/* Less than this is as good as nothing to whoever wants to write. */
#define SHORT_BYTES (8 * MIB)

static int64_t looked_at_ms;
static int64_t look_at_ms;
static int64_t flushed_at_ms;
static pid_t flusher; /* the last child that wrote out */

struct host_room {
  uint64_t free_bytes;
  uint64_t mark_bytes;
};

static bool is_image(const struct sandbox *sandbox) {
  return sandbox->upper_kind == UPPER_IMAGE && sandbox->state == SANDBOX_RUNNING && sandbox->upper_mount_fd >= 0;
}

static bool host_look(const struct launcher *launcher, struct host_room *host) {
  struct statfs status;
  if (fstatfs(launcher->data_fd, &status) != 0) return false;
  uint64_t total = status.f_blocks * (uint64_t)status.f_frsize;
  uint64_t mark = total / 100 * LOW_WATER_PERCENT;
  if (mark < LOW_WATER_MIB_MIN * MIB) mark = LOW_WATER_MIB_MIN * MIB;
  if (mark > LOW_WATER_MIB_MAX * MIB) mark = LOW_WATER_MIB_MAX * MIB;
  *host = (struct host_room){.free_bytes = status.f_bavail * (uint64_t)status.f_frsize, .mark_bytes = mark};
  return true;
}

/* Returns what the image owes the host's file system, and notes what it holds. */
static uint64_t image_look(const struct launcher *launcher, struct sandbox *sandbox) {
  struct image_room *room = &sandbox->room;
  char path[REQUEST_PATH_BYTES_MAX + 8];
  struct stat file;
  struct statfs status;
  snprintf(path, sizeof path, "%s.img", sandbox->upper);
  if (fstatat(launcher->data_fd, path, &file, AT_SYMLINK_NOFOLLOW) != 0 ||
      fstatfs(sandbox->upper_mount_fd, &status) != 0) {
    return 0; /* On its way out. */
  }
  uint64_t unit = (uint64_t)status.f_frsize;
  uint64_t used = (status.f_blocks - status.f_bfree) * unit;
  uint64_t held = (uint64_t)file.st_blocks * 512;
  uint64_t metadata = (uint64_t)file.st_size - status.f_blocks * unit;
  room->has_grown = room->image_bytes != 0 && used > room->used_bytes;
  room->image_bytes = (uint64_t)file.st_size;
  room->used_bytes = used;
  room->free_bytes = status.f_bfree * unit;
  room->open_bytes = status.f_bavail * unit;
  return metadata + used > held ? metadata + used - held : 0;
}

/* How many bytes more the file system in the image may give out; not said again where it is about what holds. */
static void grant(struct launcher *launcher, struct sandbox *sandbox, uint64_t share) {
  struct image_room *room = &sandbox->room;
  bool is_withheld = share < room->free_bytes;
  if (!is_withheld && !room->is_withheld) return;
  bool is_short = is_withheld && share < SHORT_BYTES;
  if (is_short != room->is_short) {
    room->is_short = is_short;
    sandbox_announce(launcher, sandbox, is_short ? "upper_short" : "upper_roomy");
    log_line("sandbox %s: the host's disk is %s: its upper may %s", sandbox->name, is_short ? "full" : "roomy again",
             is_short ? "not grow" : "grow again");
  }
  uint64_t distance = share > room->open_bytes ? share - room->open_bytes : room->open_bytes - share;
  if (is_withheld && room->is_withheld && distance <= share / 8) return;
  if (helper_grant_image(launcher->helper_fd, sandbox->upper_mount_fd, share) != 0) return; /* At the next look. */
  room->is_withheld = is_withheld;
}

/* Writes out what the images' file systems hold, by a child: it may take as long as the disk does. */
static void flush(struct launcher *launcher) {
  if (flushed_at_ms != 0 && now_ms() - flushed_at_ms < FLUSH_MS) return;
  if (flusher > 0 && worker_is_known(launcher, flusher)) return; /* One at a time, however long a disk hangs. */
  flushed_at_ms = now_ms();
  log_line("the host's disk is nearly full: the uppers are written out");
  pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    child_forget(launcher, -1);
    for (struct sandbox *at = launcher->sandboxes; at != NULL; at = at->next) {
      if (is_image(at)) (void)syncfs(at->upper_mount_fd);
    }
    _exit(0);
  }
  flusher = pid;
  if (pid > 0 && !worker_adopt(launcher, pid)) kill(pid, SIGKILL);
}

/* Shares out what is above the mark. Returns when to look again, in milliseconds from now. */
static int64_t share_out(struct launcher *launcher, const struct host_room *host) {
  uint64_t owed = 0;
  uint64_t images = 0;
  uint64_t growing = 0;
  uint64_t wanted = 0;
  for (struct sandbox *at = launcher->sandboxes; at != NULL; at = at->next) {
    if (!is_image(at)) continue;
    upper_errors_look(launcher, at);
    owed += image_look(launcher, at);
    images++;
    growing += at->room.has_grown ? 1 : 0;
    wanted += at->room.free_bytes;
  }
  uint64_t taken = owed + host->mark_bytes;
  uint64_t pool = host->free_bytes > taken ? host->free_bytes - taken : 0;
  bool is_tight = wanted > pool;
  launcher->image_share = is_tight ? pool / 2 / (images + 1) : UINT64_MAX;
  for (struct sandbox *at = launcher->sandboxes; at != NULL; at = at->next) {
    if (!is_image(at)) continue;
    uint64_t share = pool / 2 / (images + 1) + (at->room.has_grown ? pool / 2 / growing : 0);
    grant(launcher, at, is_tight ? share : UINT64_MAX);
  }
  if (owed > 0 && host->free_bytes < host->mark_bytes / 2) flush(launcher);
  uint64_t near = pool / WRITTEN_BYTES_PER_MS;
  uint64_t most = is_tight ? TIGHT_LOOK_MS : LOOK_MS_MAX;
  if (pool == 0 || near > most) return (int64_t)most;
  return near < LOOK_MS_MIN ? LOOK_MS_MIN : (int64_t)near;
}

int64_t room_run(struct launcher *launcher) {
  bool has_any = false;
  bool has_new = false;
  for (struct sandbox *at = launcher->sandboxes; at != NULL; at = at->next) {
    if (!is_image(at)) continue;
    has_any = true;
    if (at->room.image_bytes == 0) has_new = true;
  }
  if (!has_any) {
    launcher->image_share = UINT64_MAX;
    return 0;
  }
  if (has_new && looked_at_ms + NEW_LOOK_MS < look_at_ms) look_at_ms = looked_at_ms + NEW_LOOK_MS;
  if (now_ms() < look_at_ms) return look_at_ms;
  struct host_room host;
  int64_t again_ms = host_look(launcher, &host) ? share_out(launcher, &host) : LOOK_MS_MAX;
  looked_at_ms = now_ms();
  look_at_ms = looked_at_ms + again_ms;
  return look_at_ms;
}

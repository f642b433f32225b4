/*
 * Accounting of directory uppers: see watchdog.h.
 *
 * Walking a tree is dear, asking the file system how full it is costs nothing. A sandbox can't have filled the room it
 * had left unless the file system lost at least that much since it was measured, so it is only walked again when half
 * of that is gone. Space that others free meanwhile hides writing: therefore also every REMEASURE_MS while the file
 * system changes at all.
 *
 * Over the limit all commands of the sandbox are killed. PID 1 lives on, so that a command can remove files; it is
 * killed only if the upper grew again.
 */
#include "launch/watchdog.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "launch/clock.h"
#include "launch/file.h"
#include "launch/log.h"
#include "launch/sandbox.h"
#include "launch/stillness.h"
#include "launch/tree.h"
#include "launch/worker.h"

enum {
  /* Between two looks at the file system: at 1 GB/s a writer gets 250 MB past the limit in that time. */
  WATCHDOG_MS = 250,
  REMEASURE_MS = 30000,
  /* Smallest change that is worth a walk: below it every log line of the host would start one. */
  STEP_BYTES_MIN = 1024 * 1024,
  STEP_INODES_MIN = 256,
  WALKS_MAX = 2,
};

static int64_t look_at_ms;
static unsigned walk_count;

struct walk_result {
  struct tree_usage usage;
  bool is_known;
};

struct walk {
  struct source source;
  uint64_t instance;
};

static struct tree_usage free_now(const struct launcher *launcher) {
  struct statfs status;
  if (fstatfs(launcher->data_fd, &status) != 0) return (struct tree_usage){0};
  return (struct tree_usage){.bytes = status.f_bfree * (uint64_t)status.f_frsize, .inodes = status.f_ffree};
}

static bool is_over(const struct sandbox *sandbox, const struct tree_usage *usage) {
  return (sandbox->upper_bytes_max > 0 && usage->bytes > sandbox->upper_bytes_max) ||
         (sandbox->upper_inodes_max > 0 && usage->inodes > sandbox->upper_inodes_max);
}

static void stop_writers(struct launcher *launcher, struct sandbox *sandbox, const struct tree_usage *usage) {
  bool grew = usage->bytes > sandbox->watched.bytes || usage->inodes > sandbox->watched.inodes;
  if (!grew && sandbox->was_over) return;
  sandbox->was_over = true;
  log_line("sandbox %s: upper holds %llu bytes in %llu files, above its limit: commands are killed", sandbox->name,
           (unsigned long long)usage->bytes, (unsigned long long)usage->inodes);
  sandbox->upper_kills++; /* Before they end: whoever hears of an end and asks for the reason must find it. */
  (void)stillness_signal(sandbox, SIGKILL);
  sandbox_announce(launcher, sandbox, "upper_full");
}

static void walk_ready(struct launcher *launcher, struct source *source) {
  struct walk *walk = (struct walk *)(void *)((char *)source - offsetof(struct walk, source));
  struct walk_result result;
  bool is_read = read_whole(source->fd, &result, sizeof result) == 1 && result.is_known;
  struct sandbox *sandbox = sandbox_by_instance(launcher, walk->instance);
  source_close(source);
  free(walk);
  walk_count--;
  if (sandbox == NULL || sandbox->state != SANDBOX_RUNNING) return;
  sandbox->is_walked = false;
  if (!is_read) return; /* The tree changed below the walk: the next look starts another. */
  if (is_over(sandbox, &result.usage)) stop_writers(launcher, sandbox, &result.usage);
  else sandbox->was_over = false;
  sandbox->watched = result.usage;
}

static _Noreturn void walk_main(const struct launcher *launcher, const struct sandbox *sandbox, int answer) {
  struct walk_result result = {0};
  struct tree_usage none = {0};
  struct fault fault;
  char path[REQUEST_PATH_BYTES_MAX + 8];
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  child_forget(launcher, answer);
  snprintf(path, sizeof path, "%s/data", sandbox->upper);
  cleanup_fd data = open_beneath(launcher->data_fd, path, O_RDONLY | O_DIRECTORY);
  result.is_known = data >= 0 && tree_measure(data, &none, &result.usage, &fault) == 0;
  _exit(write_whole(answer, &result, sizeof result) == 0 ? 0 : 1);
}

static void walk_begin(struct launcher *launcher, struct sandbox *sandbox, const struct tree_usage *now_free) {
  int ends[2];
  struct walk *walk = calloc(1, sizeof *walk);
  if (walk == NULL || pipe2(ends, O_CLOEXEC) != 0) {
    free(walk);
    return;
  }
  pid_t pid = fork();
  if (pid == 0) walk_main(launcher, sandbox, ends[1]);
  close(ends[1]);
  *walk = (struct walk){.source = {.fd = ends[0], .ready = walk_ready}, .instance = sandbox->instance};
  if (pid < 0 || !worker_adopt(launcher, pid) || source_add(launcher, &walk->source) != 0) {
    close(ends[0]);
    free(walk);
    return;
  }
  walk_count++;
  sandbox->is_walked = true;
  sandbox->free_when_walked = *now_free;
  sandbox->walked_at_ms = now_ms();
}

/* Half of what is left, as long as that is worth a walk. */
static uint64_t step_of(uint64_t max, uint64_t used, uint64_t min) {
  uint64_t left = max > used ? (max - used) / 2 : 0;
  return left < min ? min : left;
}

static bool is_due(const struct sandbox *sandbox, const struct tree_usage *now_free) {
  const struct tree_usage *before = &sandbox->free_when_walked;
  if (sandbox->walked_at_ms == 0) return true;
  uint64_t bytes = before->bytes > now_free->bytes ? before->bytes - now_free->bytes : 0;
  uint64_t inodes = before->inodes > now_free->inodes ? before->inodes - now_free->inodes : 0;
  bool changed = before->bytes != now_free->bytes || before->inodes != now_free->inodes;
  return bytes >= step_of(sandbox->upper_bytes_max, sandbox->watched.bytes, STEP_BYTES_MIN) ||
         inodes >= step_of(sandbox->upper_inodes_max, sandbox->watched.inodes, STEP_INODES_MIN) ||
         (changed && now_ms() - sandbox->walked_at_ms > REMEASURE_MS);
}

int64_t watchdog_run(struct launcher *launcher) {
  bool has_any = false;
  for (struct sandbox *at = launcher->sandboxes; at != NULL && !has_any; at = at->next) {
    has_any = at->upper_kind == UPPER_DIRECTORY && at->state == SANDBOX_RUNNING;
  }
  if (!has_any) return 0;
  if (now_ms() < look_at_ms) return look_at_ms;
  struct tree_usage now_free = free_now(launcher);
  for (struct sandbox *at = launcher->sandboxes; at != NULL && walk_count < WALKS_MAX; at = at->next) {
    if (at->upper_kind != UPPER_DIRECTORY || at->state != SANDBOX_RUNNING || at->is_walked) continue;
    if (is_due(at, &now_free)) walk_begin(launcher, at, &now_free);
  }
  look_at_ms = now_ms() + WATCHDOG_MS;
  return look_at_ms;
}

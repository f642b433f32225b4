/*
 * Accounting of directory uppers: see watchdog.h.
 *
 * Walking a tree is dear, asking the file system how full it is costs nothing. A sandbox can't have filled the room it
 * had left unless the file system lost at least that much since it was measured, so it is only walked again when half
 * of that is gone. Space that others free meanwhile hides writing: therefore also every REMEASURE_MS while the file
 * system changes at all.
 *
 * Who writes can also keep the walk from seeing it, by renaming and moving without end what is looked at. So a walk
 * that found names gone counts as no measurement, and after some of those the sandbox stands still for one.
 *
 * Over the limit all commands of the sandbox are killed. PID 1 lives on, so that a command can remove files; but it
 * belongs to the sandbox's code as well. It is ended, and with it everything, where commands prevent their end or
 * the upper grows on through several kills.
 */
#include "launch/watchdog.h"

#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/clock.h"
#include "common/file.h"
#include "launch/log.h"
#include "launch/sandbox.h"
#include "launch/stillness.h"
#include "launch/upper.h"
#include "tree/tree.h"
#include "launch/worker.h"

enum {
  /* Between two looks at the file system: at 1 GB/s a writer gets 250 MB past the limit in that time. */
  WATCHDOG_MS = 250,
  REMEASURE_MS = 30000,
  /* Smallest change that is worth a walk: below it every log line of the host would start one. */
  STEP_BYTES_MIN = 1024 * 1024,
  STEP_INODES_MIN = 256,
  WALKS_MAX = 2,
  /* A busy build loses names to its own removals now and then; a stand-still costs it the time of one walk. */
  DOUBTFUL_WALKS_MAX = 3,
  /* Not even measured while it stands still: no program does that by accident. */
  REFUSED_WALKS_MAX = 8,
  /* A client may try the same command again; one that grows the upper every time helps nobody. */
  KILLS_IN_A_ROW_MAX = 4,
  /* A walk that meets more than this is followed by new names as fast as it goes. */
  WALK_INODES_SPARE = 65536,
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
  struct tree_usage free_before;
  bool is_still;
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

static uint64_t walk_inodes_max(const struct sandbox *sandbox) {
  return sandbox->upper_inodes_max == 0 ? 0 : 4 * sandbox->upper_inodes_max + WALK_INODES_SPARE;
}

static bool grew(const struct sandbox *sandbox, const struct tree_usage *usage) {
  uint64_t most = walk_inodes_max(sandbox);
  return usage->bytes > sandbox->watched.bytes || usage->inodes > sandbox->watched.inodes ||
         (most > 0 && usage->inodes > most);
}

static void kill_commands(struct launcher *launcher, struct sandbox *sandbox) {
  sandbox->upper_kills++; /* Before they end: whoever hears of an end and asks for the reason must find it. */
  sandbox->kills_in_a_row++;
  bool is_obeyed = stillness_signal(sandbox, SIGKILL) == 0;
  if (!is_obeyed || sandbox->kills_in_a_row >= KILLS_IN_A_ROW_MAX) {
    log_line("sandbox %s: %s: it is ended", sandbox->name,
             is_obeyed ? "its upper grows on through every kill" : "its commands prevent their end");
    kill(sandbox->pid, SIGKILL); /* The kernel takes everything in its pid namespace along. */
  }
  sandbox_announce(launcher, sandbox, "upper_full");
}

static void judge(struct launcher *launcher, struct sandbox *sandbox, const struct tree_usage *usage) {
  if (!is_over(sandbox, usage)) {
    /* What was not seen may be what is too much. */
    if (usage->missed == 0) sandbox->kills_in_a_row = 0;
    return;
  }
  if (sandbox->kills_in_a_row > 0 && !grew(sandbox, usage)) return;
  log_line("sandbox %s: upper holds %llu bytes in %llu files, above its limit: commands are killed", sandbox->name,
           (unsigned long long)usage->bytes, (unsigned long long)usage->inodes);
  kill_commands(launcher, sandbox);
}

static void take_result(struct launcher *launcher, struct sandbox *sandbox, const struct walk *walk,
                        const struct walk_result *result) {
  bool is_believed = result->is_known && result->usage.missed == 0;
  if (result->is_known) judge(launcher, sandbox, &result->usage);
  if (is_believed || (result->is_known && is_over(sandbox, &result->usage))) {
    sandbox->doubtful_walks = 0;
    sandbox->watched = result->usage;
    sandbox->free_when_walked = walk->free_before;
    return;
  }
  if (++sandbox->doubtful_walks < REFUSED_WALKS_MAX) return;
  sandbox->doubtful_walks = DOUBTFUL_WALKS_MAX;
  log_line("sandbox %s: its upper can't be measured: commands are killed", sandbox->name);
  kill_commands(launcher, sandbox);
}

static void walk_ready(struct launcher *launcher, struct source *source) {
  struct walk *walk = (struct walk *)(void *)((char *)source - offsetof(struct walk, source));
  struct walk_result result;
  bool is_read = read_whole(source->fd, &result, sizeof result) == 1;
  struct sandbox *sandbox = sandbox_by_instance(launcher, walk->instance);
  source_close(source);
  walk_count--;
  if (sandbox != NULL) {
    sandbox->is_walked = false;
    /* One that was ended in the middle left the sandbox as it was. */
    if (walk->is_still && !is_read && !sandbox->is_frozen && sandbox->packer == 0 && sandbox->freezer == 0 && sandbox->pid != 0) {
      (void)sandbox_thaw(launcher, sandbox, &(struct fault){0});
    }
    if (walk->is_still) sandbox->still_walker = 0;
    if (is_read && sandbox->state == SANDBOX_RUNNING) take_result(launcher, sandbox, walk, &result);
  }
  free(walk);
}

static _Noreturn void walk_main(const struct launcher *launcher, const struct sandbox *sandbox, const struct walk *walk,
                                int answer) {
  struct walk_result result = {0};
  const struct tree_usage max = {.inodes = walk_inodes_max(sandbox)};
  struct fault fault;
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  (void)setpgid(0, 0); /* A group with those it sends into the sandbox: see stillness_yield. */
  child_forget(launcher, answer);
  cleanup_fd upper = open_beneath(launcher->data_fd, sandbox->upper, O_RDONLY | O_DIRECTORY);
  bool is_ready = !walk->is_still || stillness_set(launcher, sandbox, true) == 0;
  result.is_known = is_ready && upper >= 0 && upper_measure(upper, &max, &result.usage, &fault) == 0;
  if (walk->is_still) (void)stillness_set(launcher, sandbox, false);
  _exit(write_whole(answer, &result, sizeof result) == 0 ? 0 : 1);
}

/* Where it is packed it stands still already. At once where the room that the file system lost is all it had left. */
static bool needs_stillness(const struct sandbox *sandbox, const struct tree_usage *now_free) {
  if (sandbox->doubtful_walks == 0 || sandbox->is_frozen || sandbox->packer != 0 || sandbox->freezer != 0) return false;
  uint64_t before = sandbox->free_when_walked.bytes;
  uint64_t lost = before > now_free->bytes ? before - now_free->bytes : 0;
  bool may_be_over = sandbox->upper_bytes_max > 0 && lost + sandbox->watched.bytes > sandbox->upper_bytes_max;
  return may_be_over || sandbox->doubtful_walks >= DOUBTFUL_WALKS_MAX;
}

static void walk_begin(struct launcher *launcher, struct sandbox *sandbox, const struct tree_usage *now_free) {
  int ends[2];
  struct walk *walk = calloc(1, sizeof *walk);
  if (walk == NULL || pipe2(ends, O_CLOEXEC) != 0) {
    free(walk);
    return;
  }
  bool is_still = needs_stillness(sandbox, now_free);
  *walk = (struct walk){.source = {.fd = ends[0], .ready = walk_ready},
                        .instance = sandbox->instance,
                        .free_before = *now_free,
                        .is_still = is_still};
  pid_t pid = fork();
  if (pid == 0) walk_main(launcher, sandbox, walk, ends[1]);
  if (pid > 0) (void)setpgid(pid, pid); /* Whoever of the two comes first. */
  close(ends[1]);
  if (pid < 0 || !worker_adopt(launcher, pid) || source_add(launcher, &walk->source) != 0) {
    if (pid > 0) kill(pid, SIGKILL);
    close(ends[0]);
    free(walk);
    return;
  }
  walk_count++;
  sandbox->is_walked = true;
  if (sandbox->walked_at_ms == 0) sandbox->free_when_walked = *now_free;
  if (is_still) sandbox->still_walker = pid;
  sandbox->walked_at_ms = now_ms();
}

/* Half of what is left, as long as that is worth a walk. */
static uint64_t step_of(uint64_t max, uint64_t used, uint64_t min) {
  uint64_t left = max > used ? (max - used) / 2 : 0;
  return left < min ? min : left;
}

static bool is_due(const struct sandbox *sandbox, const struct tree_usage *now_free) {
  const struct tree_usage *before = &sandbox->free_when_walked;
  /* What a walk that is not believed found changes nothing here; where none was believed yet, another one begins. */
  if (sandbox->walked_at_ms == 0 || sandbox->watched.inodes == 0) return true;
  uint64_t bytes = before->bytes > now_free->bytes ? before->bytes - now_free->bytes : 0;
  uint64_t inodes = before->inodes > now_free->inodes ? before->inodes - now_free->inodes : 0;
  bool changed = before->bytes != now_free->bytes || before->inodes != now_free->inodes;
  return bytes >= step_of(sandbox->upper_bytes_max, sandbox->watched.bytes, STEP_BYTES_MIN) ||
         inodes >= step_of(sandbox->upper_inodes_max, sandbox->watched.inodes, STEP_INODES_MIN) ||
         (changed && now_ms() - sandbox->walked_at_ms > REMEASURE_MS);
}

/* The one that waits longest: whoever is walked slowly and always due must not keep the others from being looked at. */
static struct sandbox *longest_due(struct launcher *launcher, const struct tree_usage *now_free) {
  struct sandbox *found = NULL;
  for (struct sandbox *at = launcher->sandboxes; at != NULL; at = at->next) {
    if (at->upper_kind != UPPER_DIRECTORY || at->state != SANDBOX_RUNNING || at->is_walked) continue;
    if ((found == NULL || at->walked_at_ms < found->walked_at_ms) && is_due(at, now_free)) found = at;
  }
  return found;
}

int64_t watchdog_run(struct launcher *launcher) {
  bool has_any = false;
  for (struct sandbox *at = launcher->sandboxes; at != NULL && !has_any; at = at->next) {
    has_any = at->upper_kind == UPPER_DIRECTORY && at->state == SANDBOX_RUNNING;
  }
  if (!has_any) return 0;
  if (now_ms() < look_at_ms) return look_at_ms;
  struct tree_usage now_free = free_now(launcher);
  for (struct sandbox *due; walk_count < WALKS_MAX && (due = longest_due(launcher, &now_free)) != NULL;) {
    unsigned before = walk_count;
    walk_begin(launcher, due, &now_free);
    if (walk_count == before) break; /* No process or descriptor for it: at the next look. */
  }
  look_at_ms = now_ms() + WATCHDOG_MS;
  return look_at_ms;
}

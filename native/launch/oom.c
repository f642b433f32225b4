/* The order in which the kernel ends processes for want of memory: see oom.h. */
#include "launch/oom.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/file.h"
#include "launch/ids.h"

static bool is_left_alone = true;

void oom_begin(void) {
  char score[16];
  if (!is_root_of_range() || text_file_read(AT_FDCWD, "/proc/self/oom_score_adj", score, sizeof score) <= 0 || atoi(score) > 0) {
    return;
  }
  /*
   * What root writes here is also the least that a process or a child of it may ever set for itself: a service manager's
   * -500 would be every sandbox's to take. The old file sets the score and leaves that bound where it is.
   */
  is_left_alone = text_file_write(AT_FDCWD, "/proc/self/oom_score_adj", "0") != 0;
  is_left_alone |= oom_spare(0, OOM_DAEMON) != 0;
}

int oom_spare(pid_t pid, enum oom_level level) {
  char path[64];
  if (is_left_alone) return -1;
  snprintf(path, sizeof path, "/proc/%d/oom_adj", pid == 0 ? getpid() : pid);
  return text_file_write_format(AT_FDCWD, path, "%d", (int)level);
}

void oom_settle(void) {
  if (is_left_alone) oom_raise(OOM_DAEMON_RAISED);
}

void oom_raise(int score) {
  char present[16];
  if (text_file_read(AT_FDCWD, "/proc/self/oom_score_adj", present, sizeof present) <= 0 || atoi(present) >= score) return;
  (void)text_file_write_format(AT_FDCWD, "/proc/self/oom_score_adj", "%d", score);
}

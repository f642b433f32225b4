/* The launcher's list of its children: whole, where it is longer than any buffer, and of nobody else. */
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/children.h"
#include "tests/check.h"

/* Ids of seven digits fill 12 kB. */
enum { CHILDREN = 1500 };

static pid_t children[CHILDREN];
static bool was_visited[CHILDREN];
static unsigned strangers;

static void visit(struct launcher *launcher, pid_t pid) {
  (void)launcher;
  for (unsigned i = 0; i < CHILDREN; i++) {
    if (children[i] != pid) continue;
    was_visited[i] = true;
    return;
  }
  strangers++;
}

int main(void) {
  for (unsigned i = 0; i < CHILDREN; i++) {
    children[i] = fork();
    CHECK(children[i] >= 0);
    if (children[i] == 0) {
      pause();
      _exit(0);
    }
  }
  children_visit(NULL, visit);
  for (unsigned i = 0; i < CHILDREN; i++) kill(children[i], SIGKILL);
  for (unsigned i = 0; i < CHILDREN; i++) CHECK(waitpid(children[i], NULL, 0) == children[i]);
  for (unsigned i = 0; i < CHILDREN; i++) CHECK(was_visited[i]);
  CHECK(strangers == 0);
  return check_summary();
}

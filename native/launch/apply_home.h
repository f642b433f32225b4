/* The host's directory that changes of a box are brought to: the parts of apply.c that write there. */
#ifndef SQUASH_LAUNCH_APPLY_HOME_H
#define SQUASH_LAUNCH_APPLY_HOME_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

struct home {
  int upper; /* with `data` and the stage */
  int from;  /* the box's directory in it */
  int to;    /* the host's */
  uint64_t changed_us;
  bool takes_outside;
  bool takes_held;
  int journal;
  size_t journal_bytes; /* before this call */
  const char **earlier; /* lines that the journal had, sorted; a worker ends with its request, and nobody frees them */
  size_t earlier_count;
  unsigned count; /* of things made in the stage */
};

/* What became of a name. The texts are the wire's. */
struct outcome {
  const char *word;
  const char *reason;
};

extern const struct outcome applied;
extern const struct outcome same;
struct outcome conflict_with(const char *reason);
struct outcome held_with(const char *reason);
struct outcome refused_with(const char *reason);
struct outcome refused_by_kernel(void);
bool is_applied(const struct outcome *outcome);

/* A name of the host's directory, as it was when it was looked at. */
struct spot {
  const char *path;
  int parent;
  const char *name;
  bool is_there;
  struct stat was;
};

/* ---- apply_journal.c: what earlier calls have made of the host's names does not count as somebody else's change ---- */

int journal_open(struct home *home);
/* Since the box began, by somebody else than us. */
bool journal_says_changed(struct home *home, const char *path, const struct stat *status);
/* That the name is now as we made it, and the directory that it is in. `made`: what we made, where anything. */
void journal_note(const struct home *home, const struct spot *spot, const struct stat *made);

/* ---- apply_place.c ---- */

/* Where things become whole: a name for one more, relative to the upper. */
enum { STAGED_BYTES = 64 };
void stage_name(struct home *home, char name[STAGED_BYTES]);

/*
 * What is staged in a directory comes to the spot by one rename. What was there goes, unless somebody has changed it since the spot
 * was looked at: that comes back. With errno EXDEV nothing was done, and the outcome has no word.
 */
struct outcome place_staged(struct home *home, const struct spot *spot, int directory, const char *staged);

/* A directory goes whole or not at all. */
struct outcome remove_spot(struct home *home, const struct spot *spot);

/* Why what is there must not go: somebody changed it or something in it, or git's own is in it. Has no word where it may. */
struct outcome why_not_replaced(struct home *home, const struct spot *spot);

#endif

/*
 * How fast this processor's counter runs. An emulated guest has no other clock to measure it by, and is told on its kernel's
 * command line: where that word has `{tsc_khz}`, the number takes its place.
 */
#ifndef SQUASH_VMM_TSC_H
#define SQUASH_VMM_TSC_H

/* When the process begins: the longer ago, the more exact. */
void tsc_begin(void);
/* `words` with the number in the first one that has the mark. What it returns is good until the next call. */
char *const *tsc_words(char **words);

#endif

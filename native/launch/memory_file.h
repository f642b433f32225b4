/* Sealed files in memory: content that is handed to other programs by descriptor and can't be changed by them. */
#ifndef SQUASH_LAUNCH_MEMORY_FILE_H
#define SQUASH_LAUNCH_MEMORY_FILE_H
#include <stddef.h>

/* A sealed, executable memfd with these bytes, close-on-exec. Returns the descriptor or -1. */
int memory_file(const char *name, const void *bytes, size_t length);
/* The same with what `source` holds; at most 16 MiB, far more than any of our programs. */
int memory_file_copy(const char *name, int source);
/* A second, independent read position on a memory file: programs read such a descriptor to its end. */
int memory_file_reopen(int fd);

#endif

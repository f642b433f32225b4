/* A tar's header, as POSIX has it (ustar): one block, numbers as octal text. */
#ifndef SQUASH_COMMON_TAR_HEADER_H
#define SQUASH_COMMON_TAR_HEADER_H

enum { TAR_BLOCK_BYTES = 512 };

/* Old GNU headers have other bytes in `magic` and no prefix. */
struct tar_header {
  char name[100];
  char mode[8];
  char uid[8];
  char gid[8];
  char size[12];
  char mtime[12];
  char checksum[8];
  char type;
  char target[100];
  char magic[6];
  char version[2];
  char user[32];
  char group[32];
  char major[8];
  char minor[8];
  char prefix[155];
  char padding[12];
};
_Static_assert(sizeof(struct tar_header) == TAR_BLOCK_BYTES, "a header is a block");

#endif

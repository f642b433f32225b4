/* Sets (`xattr FILE NAME HEX`) or prints (`xattr FILE NAME`) an extended attribute: busybox has no such applet. */
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>

int main(int argc, char **argv) {
  unsigned char value[256];
  if (argc == 4) {
    size_t length = strlen(argv[3]) / 2;
    for (size_t i = 0; i < length && i < sizeof value; i++) sscanf(argv[3] + 2 * i, "%2hhx", &value[i]);
    if (lsetxattr(argv[1], argv[2], value, length, 0) == 0) return 0;
    perror("lsetxattr");
    return 1;
  }
  ssize_t length = argc == 3 ? lgetxattr(argv[1], argv[2], value, sizeof value) : -1;
  if (length < 0) {
    perror("lgetxattr");
    return 1;
  }
  for (ssize_t i = 0; i < length; i++) printf("%02x", value[i]);
  puts("");
  return 0;
}

/* Files with several names: see tar_links.h. */
#include "tree/tar_links.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A million of them with paths of 200 bytes. */
enum { LINKS_BYTES_MAX = 256 * 1024 * 1024 };

struct tar_link {
  struct tar_link *next;
  dev_t device;
  ino_t inode;
  char path[];
};

static size_t place_of(const struct tar_links *links, dev_t device, ino_t inode) {
  uint64_t mixed = ((uint64_t)inode ^ (uint64_t)device << 40) * UINT64_C(0x9e3779b97f4a7c15);
  return (size_t)(mixed >> 32) & (links->room - 1);
}

static int grow(struct tar_links *links) {
  struct tar_links larger = {.room = links->room == 0 ? 256 : links->room * 2};
  larger.places = calloc(larger.room, sizeof *larger.places);
  if (larger.places == NULL) return -1;
  for (size_t i = 0; i < links->room; i++) {
    while (links->places[i] != NULL) {
      struct tar_link *moved = links->places[i];
      struct tar_link **place = &larger.places[place_of(&larger, moved->device, moved->inode)];
      links->places[i] = moved->next;
      moved->next = *place;
      *place = moved;
    }
  }
  free(links->places);
  links->places = larger.places;
  links->room = larger.room;
  return 0;
}

int tar_links_find(struct tar_links *links, const struct stat *status, const char *path, const char **first) {
  if (links->count >= links->room && grow(links) != 0) return -1;
  struct tar_link **place = &links->places[place_of(links, status->st_dev, status->st_ino)];
  for (const struct tar_link *at = *place; at != NULL; at = at->next) {
    if (at->device != status->st_dev || at->inode != status->st_ino) continue;
    *first = at->path;
    return 0;
  }
  size_t length = strlen(path) + 1;
  size_t size = sizeof(struct tar_link) + length;
  errno = ENOMEM;
  struct tar_link *added = links->bytes + size > LINKS_BYTES_MAX ? NULL : malloc(size);
  if (added == NULL) return -1;
  added->next = *place;
  added->device = status->st_dev;
  added->inode = status->st_ino;
  memcpy(added->path, path, length);
  *place = added;
  links->count++;
  links->bytes += size;
  *first = "";
  return 0;
}

bool tar_links_has(const struct tar_links *links, const struct stat *status) {
  const struct tar_link *at = links->room == 0 ? NULL : links->places[place_of(links, status->st_dev, status->st_ino)];
  while (at != NULL && (at->device != status->st_dev || at->inode != status->st_ino)) at = at->next;
  return at != NULL;
}

void tar_links_forget(struct tar_links *links, const struct stat *status) {
  struct tar_link **at = links->room == 0 ? NULL : &links->places[place_of(links, status->st_dev, status->st_ino)];
  for (; at != NULL && *at != NULL; at = &(*at)->next) {
    if ((*at)->device != status->st_dev || (*at)->inode != status->st_ino) continue;
    struct tar_link *forgotten = *at;
    *at = forgotten->next;
    free(forgotten);
    links->count--;
    return;
  }
}

void tar_links_free(struct tar_links *links) {
  for (size_t i = 0; i < links->room; i++) {
    while (links->places[i] != NULL) {
      struct tar_link *next = links->places[i]->next;
      free(links->places[i]);
      links->places[i] = next;
    }
  }
  free(links->places);
  *links = (struct tar_links){0};
}

/* One buffer for bytes that do not outlive a callback: read from one descriptor, used, forgotten. */
#ifndef SQUASH_SCRATCH_H
#define SQUASH_SCRATCH_H
#include <stdint.h>

#include "common/frames.gen.h"

extern _Alignas(16) uint8_t scratch[FRAME_DATA_BYTES_MAX];

#endif

/* The buffer: see scratch.h. */
#include "common/scratch.h"

_Alignas(16) uint8_t scratch[FRAME_DATA_BYTES_MAX];

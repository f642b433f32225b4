/* squash-launch: one program, one verb. See docs/internals/launch.md. */
#include <stdio.h>
#include <string.h>

#include "launch/enter.h"
#include "launch/keeper.h"
#include "launch/own_files.h"
#include "launch/title.h"

int main(int argc, char **argv) {
  title_keep(argc, argv);
  if (argc > 1 && strcmp(argv[1], "enter") == 0) return enter_main(argc, argv);
  if (argc > 1 && strcmp(argv[1], "keep") == 0) return keeper_main(argc, argv);
  if (argc > 1 && strcmp(argv[1], "egress") == 0) return own_files_egress_main(argc, argv);
  if (argc > 1 && strcmp(argv[1], "gateway") == 0) return own_files_gateway_main(argc, argv);
  fputs("usage: squash-launch enter|keep --data DIR --run DIR --app DIR -- COMMAND… (or egress)\n", stderr);
  return 2;
}

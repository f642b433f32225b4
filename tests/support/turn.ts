/**
 * Of many things that are tried in the same way, or for the tests' own sake (that an attack could succeed at all), a third in each run:
 * which one, `squash test` says (`TEST_TURN`). All where a file is run by its name, and with `--long`.
 */
export function thisTurn<Each>(all: readonly Each[]): readonly Each[] {
  const turn = process.env['TEST_TURN'];
  return turn === undefined ? all : all.filter((_, at) => at % 3 === Number(turn));
}

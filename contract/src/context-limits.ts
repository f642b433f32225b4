/** The limits of contexts (limits.ts). What the bridge of the layer keeps to itself stands in `images/interpreter/bridge.py`. */
export const contextLimits = {
  /** Contexts of one sandbox: each is two or three processes and tens of megabytes. */
  contextsMax: 32,
  /** Cells that wait for one context: the bridge's own number (`images/interpreter/bridge.py`). */
  contextCellsWaitingMax: 16,
  /** Text of one cell: what a JSON body has room for. */
  cellCodeBytesMax: 1_048_576,
  /** One line of a context's bridge: a picture of 4 MiB in base64, with what stands beside it. */
  contextLineBytesMax: 8_388_608,
  /** … and the commas, colons and opening brackets in it that are no text: the bridge leaves out JSON with a third as many values. */
  contextLineValuesMax: 131_072,
  /** Output kept of one context: the largest cell, and cells before it. */
  contextOutputBytesMax: 12_582_912,
  /** … whose last cells are told from the beginning or the state alone: longer lines are not read for that. */
  contextStateLineBytesMax: 4_096,
  /** What one execution is answered with, as a bridge that keeps to its own limits never exceeds. */
  executionBytesMax: 16_777_216,
  executionResultsMax: 512,
  /** How long behind its time a cell may end: the bridge gives a kernel 5 s, then it is killed. */
  contextOverdueMs: 20_000,
  /** How long a kernel may take to start: the bridge's own times. */
  contextStartMs: 130_000,
  /** How long a bridge may take to say that it starts another kernel, or to end. */
  contextAnswerMs: 10_000,
} as const;

/**
 * One row of the shared suite: code, what it is given, what must come of it. Every row holds on every executor (`sample.ts` says which run by
 * default); a row that an executor can't satisfy names it in `differs` with the reason and what holds there instead, so that nothing is ever skipped.
 */
import assert from 'node:assert/strict';
import type { ErrorKind } from '../errors.ts';
import type { ExecuteOptions, ExecuteResult, ResolvedProvider, ToolTree } from '../types.ts';

/** A row whose work is long takes so many times as long where the machine that runs it is emulated. */
export const patience = Number(process.env['TEST_PATIENCE'] ?? 1);

export type Expect = (result: ExecuteResult) => void;

export interface Case {
  readonly name: string;
  readonly code: string;
  readonly tools?: () => ToolTree | readonly ResolvedProvider[];
  readonly options?: () => ExecuteOptions;
  readonly expect: Expect;
  /** Tries what only one engine or its runtime has, or handles in its own way: in the sample of each executor. */
  readonly everywhere?: true;
  readonly differs?: { readonly executor: string; readonly why: string; readonly expect: Expect };
}

export function returns(value: unknown): Expect {
  return (result) => {
    assert.equal(result.error, undefined);
    assert.deepEqual(result.result, value);
  };
}

export function fails(kind: ErrorKind | readonly ErrorKind[], message: RegExp = /./): Expect {
  return (result) => {
    assert.ok(
      [kind].flat().includes(result.errorInfo?.kind ?? 'config'),
      `${result.errorInfo?.kind}: ${result.error} (result ${String(result.result)})`,
    );
    assert.match(result.error ?? '', message);
    assert.equal(result.result, undefined);
  };
}

/** The code tried something and tells how it went; any word but `escaped` in its list is fine. */
export const nothingEscaped: Expect = (result) => {
  assert.equal(result.error, undefined);
  assert.ok(Array.isArray(result.result) && result.result.length > 0, 'the code returns a list of outcomes');
  assert.deepEqual(
    result.result.filter((outcome) => !/^(blocked|undefined)$/.test(String(outcome))),
    [],
  );
};

/**
 * Wraps attempts, given as sources of expressions: an attempt is `blocked` when it throws, `undefined` when it comes to nothing,
 * and otherwise tells what it got.
 */
export function attempts(...expressions: readonly string[]): string {
  const list = expressions.map((expression) => `async () => (${expression})`).join(',\n');
  return `const outcomes = [];
for (const attempt of [${list}]) {
  try {
    const got = await attempt();
    outcomes.push(got === undefined ? 'undefined' : 'escaped: ' + typeof got + ' ' + String(got).slice(0, 200));
  } catch (error) {
    outcomes.push(error instanceof Error ? 'blocked' : 'escaped: an error of another realm');
  }
}
return outcomes;`;
}

/** What a cell did, as `context.run` answers it, with what programs ask of it first. */
import { fieldOf } from './connection.ts';
import { CommandFailed } from './errors.ts';
import type { Execution as ExecutionRecord } from './records.gen.ts';

export interface Execution extends ExecutionRecord {
  /** The value of its last expression as text. */
  readonly text: string | undefined;
  /** The first picture that it showed. */
  readonly png: Uint8Array<ArrayBuffer> | undefined;
  /** Itself where `status` is `ok`. @throws CommandFailed where it is not */
  check(): Execution;
}

/** The record with them: none is a field of its own, so that the execution is written and compared as the record is. */
export function execution(record: ExecutionRecord): Execution {
  fieldOf(record, 'status', 'string');
  fieldOf(record, 'results', 'object');
  const done = Object.defineProperties(
    { ...record },
    {
      text: { get: () => record.results.find(({ is_main }) => is_main)?.text },
      png: { get: () => pictureOf(record) },
      check: {
        value: (): Execution => {
          if (record.status === 'ok') return done;
          const { error, status } = record;
          const why = error === null ? status : `${error.name}: ${error.message}`;
          throw new CommandFailed(`the cell ended with ${why.slice(0, 300)}`, done);
        },
      },
    },
  ) as Execution;
  return done;
}

function pictureOf({ results }: ExecutionRecord): Uint8Array<ArrayBuffer> | undefined {
  const text = results.find(({ png }) => png !== undefined)?.png;
  return text === undefined ? undefined : Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

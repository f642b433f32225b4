/** The thread of `preparer.ts`: one program after the other, each answered with one message. */
import { parentPort } from 'node:worker_threads';
import { CodemodeError } from '../errors.ts';
import type { ErrorKind } from '../errors.ts';
import { type Prepared, type PrepareOptions, prepare } from './prepare.ts';
import { isStripperFit } from './typescript.ts';

export type ThreadAnswer =
  | { readonly ok: true; readonly prepared: Prepared }
  /** `isSpent`: the thread must not read another program. */
  | { readonly ok: false; readonly kind: ErrorKind; readonly message: string; readonly isSpent: boolean };

parentPort?.on(
  'message',
  ({ code, options }: { readonly code: string; readonly options: PrepareOptions }) => {
    parentPort?.postMessage(answerTo(code, options));
  },
);

function answerTo(code: string, options: PrepareOptions): ThreadAnswer {
  try {
    return { ok: true, prepared: prepare(code, options) };
  } catch (failure) {
    const kind = failure instanceof CodemodeError ? failure.kind : 'syntax';
    const message = failure instanceof Error ? failure.message : 'the code can not be read';
    return { ok: false, kind, message, isSpent: !isStripperFit() };
  }
}

/** What a tool's function can ask about the call it serves, without a parameter that every tool would have to take. */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { ToolContext } from '../types.ts';
import type { HostWork } from './host-work.ts';

const storage = new AsyncLocalStorage<{ readonly context: ToolContext; readonly hostWork: HostWork }>();

/** @throws TypeError where no tool runs */
export function toolContext(): ToolContext {
  const held = storage.getStore();
  if (held === undefined) throw new TypeError('toolContext() is called outside of a tool');
  return held.context;
}

/** Work of ours in a tool's place, such as a check of its arguments: the run pays for it. @throws CodemodeError where it can't */
export function chargeRun<T>(work: () => T): T {
  const held = storage.getStore();
  return held === undefined ? work() : held.hostWork.measure(work);
}

export function inToolContext<T>(context: ToolContext, hostWork: HostWork, work: () => T): T {
  return storage.run({ context, hostWork }, work);
}

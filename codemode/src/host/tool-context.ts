/** What a tool's function can ask about the call it serves, without a parameter that every tool would have to take. */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { ToolContext } from '../types.ts';

const storage = new AsyncLocalStorage<ToolContext>();

/** @throws where no tool runs */
export function toolContext(): ToolContext {
  const context = storage.getStore();
  if (context === undefined) throw new Error('toolContext() is called outside of a tool');
  return context;
}

export function inToolContext<T>(context: ToolContext, work: () => T): T {
  return storage.run(context, work);
}

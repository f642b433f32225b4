/**
 * `@squash/codemode`: runs a program that a model wrote, lets it call the tools it was given, and returns what it returned.
 *
 *     await using executor = createExecutor('quickjs');
 *     const { result } = await executor.execute('codemode.add(1, 2)', { add: (a, b) => a + b });
 */
import './node-version.ts';
export { CodemodeError, type ErrorKind, errorKinds } from './errors.ts';
export {
  type CloudflareConnector,
  type CloudflareExecutor,
  type CloudflareProvider,
  toCloudflareExecutor,
} from './cloudflare/executor.ts';
export { createExecutor, type ExecutorName, type ExecutorOptions } from './executors.ts';
export { toolContext } from './host/tool-context.ts';
export { defaultLimits, type Limits } from './limits.ts';
export {
  type CatalogEntry,
  catalogOf,
  type JsonSchema,
  type ToolDefinition,
  toolTreeOf,
} from './tools/catalog.ts';
export { declarationsOf } from './tools/declarations.ts';
export { ToolSearch, withSearch } from './tools/search.ts';
export type * from './types.ts';

/** Which tools there are, in the order in which a model reads them, and which of them an operator's options leave. */
import type { McpOptions } from './options.ts';
import type { ToolRow } from './tool.ts';
import { editFile, listFiles, searchFiles, writeFile } from './tools/files.ts';
import { readProcess, startProcess, stopProcess, writeProcess } from './tools/processes.ts';
import { readFile } from './tools/read-file.ts';
import { requestNetwork } from './tools/request-network.ts';
import { runCode } from './tools/run-code.ts';
import { runCommand } from './tools/run-command.ts';
import {
  createSandbox,
  listSandboxes,
  openPort,
  removeSandbox,
  restoreSnapshot,
  snapshotTool,
} from './tools/sandboxes.ts';

const allTools: readonly ToolRow[] = [
  runCommand,
  runCode,
  readFile,
  writeFile,
  editFile,
  listFiles,
  searchFiles,
  startProcess,
  readProcess,
  writeProcess,
  stopProcess,
  snapshotTool,
  restoreSnapshot,
  openPort,
  requestNetwork,
  createSandbox,
  listSandboxes,
  removeSandbox,
];

/** With one sandbox, none is made and none removed. */
const ofMany: readonly ToolRow[] = [createSandbox, removeSandbox];

export function toolsFor({ sandbox, readOnly }: McpOptions): readonly ToolRow[] {
  return allTools
    .filter((row) => sandbox === undefined || !ofMany.includes(row))
    .filter(({ kind }) => !readOnly || kind === 'reads');
}

/**
 * The egress process: decides what every sandbox may reach. Started by the daemon, outlives it, is taken over by the next.
 *
 * Nothing of its configuration stands in the environment: paths come as words, rules by the daemon's first request,
 * secrets from their file. It ends on SIGTERM, SIGINT or the daemon's word; connections through it then end, policies do not.
 */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import packageJson from '../package.json' with { type: 'json' };
import { systemClock } from '@squash/base/clock';
import { startAgainCompiled } from '@squash/base/compiled';
import { letHeapGrow } from '@squash/base/late-flags';
import { createLog, type Log, type LogLevel } from '@squash/base/log';
import { EgressLocked, isFileTrouble } from './database.ts';
import { runEgress } from './egress-process.ts';
import { LogFile } from './log-file.ts';
import { makeParts } from './parts.ts';

/** Exit codes of sysexits.h, which a service manager understands. */
const exitUsage = 64;
const exitSoftware = 70;
/** Its files can't be written or read: the disk is full, most often, and then no log could say so. */
const exitInputOutput = 74;
/** Another one serves this data directory: nothing is wrong, and there is nothing to do. */
const exitLocked = 75;

/**
 * What is read passes in buffers that the young generation's collector frees for next to nothing. V8 counts them
 * towards the old one's limit all the same: near a small heap it would mark that whole heap every few megabytes.
 */
const heapGrowthPercent = 400;

function openLog(path: string, level: LogLevel): Log {
  const file = new LogFile(path);
  return createLog({
    level,
    format: 'json',
    write: (line) => file.write(line),
    nowMs: () => systemClock.wallMs(),
    rate: { linesMax: 10, windowMs: 60_000, keysMax: 4_096 },
  });
}

interface Words {
  readonly dataDir: string;
  readonly runDir: string;
  readonly build: string;
  readonly level: LogLevel;
  readonly resolvers: readonly string[] | undefined;
  readonly hostsFile: string | undefined;
}

function readWords(): Words | undefined {
  const { values } = parseArgs({
    options: {
      data: { type: 'string' },
      run: { type: 'string' },
      build: { type: 'string', default: packageJson.version },
      'log-level': { type: 'string', default: 'info' },
      resolvers: { type: 'string' },
      'hosts-file': { type: 'string' },
    },
  });
  const level = (['debug', 'info', 'warn', 'error'] as const).find((one) => one === values['log-level']);
  if (values.data === undefined || level === undefined) return undefined;
  return {
    dataDir: values.data,
    build: values.build,
    runDir: values.run ?? join(values.data, 'run'),
    level,
    resolvers: values.resolvers?.split(','),
    hostsFile: values['hosts-file'],
  };
}

function exitCodeOf(error: unknown): number {
  if (error instanceof EgressLocked) return exitLocked;
  return isFileTrouble(error) ? exitInputOutput : exitSoftware;
}

async function main(): Promise<number> {
  process.umask(0o077);
  const words = readWords();
  if (words === undefined) {
    process.stderr.write('usage: main.ts --data DIR [--run DIR] [--log-level debug|info|warn|error]\n');
    return exitUsage;
  }
  startAgainCompiled();
  mkdirSync(words.runDir, { recursive: true });
  const log = openLog(join(words.dataDir, 'log', 'egress.log'), words.level);
  const stop = new AbortController();
  for (const name of ['SIGTERM', 'SIGINT'] as const) process.on(name, () => stop.abort());
  // What nobody expected: a process that goes on half is worse than relays that refuse until there is a new one.
  process.on('uncaughtException', (error) => {
    log.error('egress.fault', { error, stack: error.stack });
    process.exit(exitSoftware);
  });
  try {
    const parts = await makeParts(words.dataDir, log);
    letHeapGrow(heapGrowthPercent);
    await runEgress({ ...words, log, parts }, stop.signal);
    return 0;
  } catch (error) {
    log.error('egress.failed', { error });
    process.stderr.write(`squash egress: ${error instanceof Error ? error.message : String(error)}\n`);
    return exitCodeOf(error);
  }
}

/** The program: ends the process. */
export async function start(): Promise<never> {
  process.exit(await main());
}

if (import.meta.main) await start();

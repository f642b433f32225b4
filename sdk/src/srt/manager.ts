/**
 * `SandboxManager` in the shape of Anthropic's Sandbox Runtime, over boxes: `wrapWithSandbox` gives the text of a shell command, which
 * its caller starts as he likes. Settings that can't be had are an error by name; so are the calls that this has not.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { badRequest } from '../errors.ts';
import { findSquash, shellWord } from './program.ts';
import { type SandboxAskCallback, Session } from './session.ts';
import { functionIn, pathWords, type SrtConfig, type SrtCustomConfig, withCustom } from './settings.ts';
import { annotated, SandboxViolationStore } from './violations.ts';

export interface SandboxOptions {
  /** The program `squash`; default: the one beside this package, else that of PATH. */
  readonly program?: string;
}

interface State {
  readonly directory: string;
  readonly words: readonly string[];
  readonly ask: SandboxAskCallback | undefined;
  config: SrtConfig;
  sessions: Session[];
  count: number;
}

let state: State | undefined;
const store = new SandboxViolationStore();

function running(): State {
  if (state === undefined) throw badRequest('SandboxManager.initialize comes first');
  return state;
}

// The original's order of parameters.
// oxlint-disable-next-line max-params
async function initialize(
  config: SrtConfig,
  askCallback?: SandboxAskCallback,
  enableLogMonitor = false,
  options: SandboxOptions = {},
): Promise<void> {
  if (enableLogMonitor)
    throw badRequest(
      'enableLogMonitor is for macOS; what the network refuses is in getSandboxViolationStore',
    );
  if (state !== undefined)
    throw badRequest('SandboxManager is initialized: updateConfig changes the settings, reset ends it');
  const words = findSquash(options.program);
  if (!isSupportedPlatform() || words === undefined)
    throw badRequest(checkDependencies(options).errors.join('; '));
  const directory = mkdtempSync(join(tmpdir(), 'squash-srt-'));
  try {
    check(config, { directory, words });
  } catch (cause) {
    rmSync(directory, { recursive: true, force: true });
    throw cause;
  }
  state = { directory, words, ask: askCallback, config, sessions: [], count: 0 };
  process.on('exit', removeDirectory);
}

/** A program that ends without `reset` leaves nothing in the directory for temporary files either. */
function removeDirectory(): void {
  if (state !== undefined) rmSync(state.directory, { recursive: true, force: true });
}

/** @throws BadRequest with everything that is wrong or can't be had */
function check(config: SrtConfig, { directory, words }: Pick<State, 'directory' | 'words'>): void {
  const found = functionIn(config);
  if (found !== undefined) throw badRequest(`${found}: a function can’t be asked about what a box does`);
  const path = join(directory, 'settings.json');
  writeFileSync(path, JSON.stringify(config), { mode: 0o600 });
  const [program = '', ...first] = words;
  const { status, stderr, error } = spawnSync(program, [...first, 'box', 'policy', 'import', 'srt', path], {
    encoding: 'utf8',
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  if (error !== undefined) throw error;
  if (status !== 0) throw badRequest(stderr.replaceAll(/^note: .*\n/gm, '').trim());
}

function isSupportedPlatform(): boolean {
  return process.platform === 'linux';
}

function checkDependencies(options: SandboxOptions = {}): { warnings: string[]; errors: string[] } {
  const errors = [
    ...(isSupportedPlatform() ? [] : [`boxes are for Linux, not ${process.platform}`]),
    ...(findSquash(options.program) === undefined ? ['the program squash is not in PATH'] : []),
  ];
  return { warnings: [], errors };
}

// The original's order of parameters.
// oxlint-disable-next-line max-params
async function wrapWithSandbox(
  command: string,
  binShell = 'bash',
  customConfig?: SrtCustomConfig,
  abortSignal?: AbortSignal,
): Promise<string> {
  abortSignal?.throwIfAborted();
  const own = running();
  const config = (): SrtConfig =>
    customConfig === undefined ? own.config : withCustom(own.config, customConfig);
  if (customConfig !== undefined) check(config(), own);
  own.count += 1;
  const path = join(own.directory, `${own.count}.sock`);
  const ask = config().network.strictAllowlist === true ? undefined : own.ask;
  const session = await Session.open(path, {
    command,
    shell: binShell,
    config,
    ask,
    refused: (line) => store.addViolation({ line, command, timestamp: new Date() }),
  });
  own.sessions = [...own.sessions.filter(({ isClosed }) => !isClosed), session];
  return [...own.words, 'srt', '--session', path, '-c', command].map(shellWord).join(' ');
}

/** For what is wrapped from now on; commands that run get the network of it. @throws BadRequest as `initialize` */
function updateConfig(config: SrtConfig): void {
  const own = running();
  check(config, own);
  own.config = config;
  for (const session of own.sessions) session.update();
}

/** Sockets of commands that nobody started. */
function cleanupAfterCommand(): void {
  if (state === undefined) return;
  for (const session of state.sessions) if (!session.isConnected) session.close();
  state.sessions = state.sessions.filter(({ isClosed }) => !isClosed);
}

async function reset(): Promise<void> {
  if (state === undefined) return;
  for (const session of state.sessions) session.close();
  removeDirectory();
  process.off('exit', removeDirectory);
  state = undefined;
  store.clear();
}

function refuse(name: string, why: string): () => never {
  return () => {
    throw badRequest(`SandboxManager.${name} is not offered: ${why}`);
  };
}

const noProxy = 'the network of a box needs no proxy';

export const SandboxManager = {
  initialize,
  isSupportedPlatform,
  isSandboxingEnabled: (): boolean => state !== undefined,
  checkDependencies,
  wrapWithSandbox,
  updateConfig,
  getConfig: (): SrtConfig | undefined => state?.config,
  getFsReadConfig: () => {
    const { denyRead, allowRead } = running().config.filesystem;
    return { denyOnly: pathWords(denyRead), allowWithinDeny: pathWords(allowRead) };
  },
  getFsWriteConfig: () => {
    const { allowWrite, denyWrite } = running().config.filesystem;
    return { allowOnly: pathWords(allowWrite), denyWithinAllow: pathWords(denyWrite) };
  },
  getNetworkRestrictionConfig: () => {
    const { allowedDomains, deniedDomains } = running().config.network;
    return { allowedHosts: allowedDomains, deniedHosts: deniedDomains };
  },
  cleanupAfterCommand,
  annotateStderrWithSandboxFailures: (command: string, stderr: string): string =>
    annotated(stderr, store.getViolationsForCommand(command)),
  getSandboxViolationStore: (): SandboxViolationStore => store,
  reset,
  wrapWithSandboxArgv: refuse('wrapWithSandboxArgv', 'it is for Windows'),
  spawnSandboxed: refuse('spawnSandboxed', 'it is for Windows'),
  registerCommandNetworkLists: refuse('registerCommandNetworkLists', 'give wrapWithSandbox a customConfig'),
  unregisterCommandNetworkLists: refuse(
    'unregisterCommandNetworkLists',
    'give wrapWithSandbox a customConfig',
  ),
  getProxyPort: refuse('getProxyPort', noProxy),
  getSocksProxyPort: refuse('getSocksProxyPort', noProxy),
  getLinuxHttpSocketPath: refuse('getLinuxHttpSocketPath', noProxy),
  getLinuxSocksSocketPath: refuse('getLinuxSocksSocketPath', noProxy),
  getMitmCA: refuse('getMitmCA', 'each box has an authority of its own, which its programs trust'),
} as const;

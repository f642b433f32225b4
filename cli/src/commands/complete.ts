/**
 * `squash __complete -- WORDS…`: what may stand in place of the last word. The shells' scripts call it.
 *
 * One candidate a line, with a tab and what it is; or the one line `:files`, where the shell knows better.
 * Nothing is ever an error here: a person pressing Tab wants no message in the middle of the line.
 */
import type { Action } from '@squash/contract/actions';
import type { Context } from '@squash/contract/context';
import type { KeyList, OwnerList } from '@squash/contract/keys';
import type { Image } from '@squash/contract/image';
import type { ModuleAnswer } from '@squash/contract/module';
import { presets } from '@squash/contract/presets';
import type { SandboxInfo } from '@squash/contract/sandbox';
import type { Schedule } from '@squash/contract/schedules';
import type { SshKeyList } from '@squash/contract/ssh-keys';
import type { SecretInfo } from '@squash/contract/secrets';
import { globalFlags, parseArguments } from '../arguments.ts';
import { Client, modulesPath, sandboxesPath, sandboxPath, sandboxRecordPath } from '../client/client.ts';
import { commandTable, findCommand } from '../command-table.ts';
import type { Call, CommandSpec, FlagSpec, PositionalSpec, WordKind } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { listAll } from '../client/pages.ts';
import { imagesPath } from '../images.ts';
import { actionsPath, type All, chatsPath, groupsPath, schedulesPath, tiersPath } from '../group-paths.ts';
import { listProcesses } from '../client/processes.ts';
import { listLayerPresets } from '../layer-builder.ts';
import { groupOf } from '../other-names.ts';
import { printLine, visible } from '../output/print.ts';
import { keysPath } from './keys-ls.ts';
import { ownersPath } from './owners-ls.ts';
import { type Preset, presetsPath } from './policy-presets.ts';
import { secretsPath } from './secret-ls.ts';
import { sshKeysPath } from './ssh-key-ls.ts';
import { type WebhookList, webhooksPath } from './webhook-ls.ts';
import { listVolumes } from './volume-ls.ts';

interface Candidate {
  readonly word: string;
  readonly about?: string;
}

/** `:files`: the shell's own completion of paths. */
type Candidates = readonly Candidate[] | ':files';

export async function run(call: Call): Promise<number> {
  const words = call.rest.slice(0, -1);
  const partial = call.rest.at(-1) ?? '';
  const found = await complete(words, partial).catch((): Candidates => []);
  if (found === ':files') {
    printLine(found);
    return exitCodes.ok;
  }
  for (const { word, about } of found) {
    if (!word.startsWith(partial)) continue;
    printLine(about === undefined ? word : `${word}\t${visible(about)}`);
  }
  return exitCodes.ok;
}

async function complete(words: readonly string[], partial: string): Promise<Candidates> {
  const found = findCommand(words);
  const previous = words.at(-1) ?? '';
  const flags = [...(found?.spec.flags ?? []), ...globalFlags];
  const open = flags.find((flag) => flag.value !== undefined && isFlag(flag, previous));
  // An option without its value yet could not be parsed.
  const before = open === undefined ? words : words.slice(0, -1);
  const source = new WordSource(findCommand(before), before);
  if (open !== undefined) return await source.ofFlag(open, partial);
  const attached = flags.find((flag) => flag.value !== undefined && partial.startsWith(`--${flag.name}=`));
  if (attached !== undefined) return await source.ofAttached(attached, partial);
  const isOpen = found === undefined || (found.isImplied === true && found.words.length === 0);
  if (isOpen && !partial.startsWith('-')) return commandWords(words);
  if (found === undefined) return flagWords(globalFlags);
  const own = found.words;
  if (own.includes('--')) return ':files';
  if (partial.startsWith('-')) return flagWords(flags);
  const count = parseArguments({ flags: found.spec.flags }, own).positionals.length;
  if (found.spec.rest !== undefined && count >= found.spec.rest.after) return [];
  const positionals = found.spec.positionals;
  const last = positionals.at(-1);
  const positional = positionals[count] ?? (last?.repeats === true ? last : undefined);
  if (positional === undefined) return [];
  // Of `help` the words before are those of the command.
  if (positional.kind === 'command') return commandWords(own);
  const candidates = await source.of(positional);
  // `snapshot` is a command, and in the other number the first word of some.
  const hasMore = own.length === 0 && !found.spec.name.includes(' ');
  return !hasMore || candidates === ':files' ? candidates : [...commandWords(words), ...candidates];
}

function isFlag(flag: FlagSpec, word: string): boolean {
  return (
    word === `--${flag.name}` || (flag.short !== undefined && new RegExp(`^-\\w*${flag.short}$`).test(word))
  );
}

function flagWords(flags: readonly FlagSpec[]): readonly Candidate[] {
  return flags.map((flag) => ({ word: `--${flag.name}`, about: flag.summary }));
}

/** The next word of every command whose name begins with what is there. */
function commandWords(words: readonly string[]): readonly Candidate[] {
  const names = words.filter((word) => !word.startsWith('-'));
  const last = names.at(-1);
  const group = last === undefined ? undefined : (groupOf(last, commandTable) ?? last);
  const candidates = new Map<string, string>();
  for (const spec of commandTable) {
    if (spec.hidden === true) continue;
    const [first = '', second] = spec.name.split(' ');
    if (group === undefined) candidates.set(first, second === undefined ? spec.summary : `${first} commands`);
    else if (group === first && second !== undefined) candidates.set(second, spec.summary);
  }
  return [...candidates].map(([word, about]) => ({ word, about }));
}

function ofOwner({ id, name, owner }: Readonly<Record<'id' | 'name' | 'owner', string>>): Candidate {
  return { word: id, about: `${name}, ${owner}` };
}

/** Asks the daemon for names. */
class WordSource {
  readonly #client: Client;
  readonly #sandbox: string | undefined;

  constructor(
    found: { readonly spec: CommandSpec; readonly words: readonly string[] } | undefined,
    words: readonly string[],
  ) {
    const parsed = tryParse(found?.spec, found?.words ?? words);
    this.#client = new Client({
      url: parsed?.flags.text('url'),
      socket: parsed?.flags.text('socket'),
      token: parsed?.flags.text('token') ?? process.env['SQUASH_AUTH_TOKEN'],
    });
    this.#sandbox = parsed?.positionals[0];
  }

  async of(spec: FlagSpec | PositionalSpec): Promise<Candidates> {
    if (spec.choices !== undefined) return spec.choices.map((word) => ({ word }));
    return await this.#ofKind(spec.kind ?? 'text');
  }

  /** `--name=` stays in front. */
  async ofAttached(flag: FlagSpec, partial: string): Promise<Candidates> {
    const head = `--${flag.name}=`;
    const found = await this.ofFlag(flag, partial.slice(head.length));
    return found === ':files' ? found : found.map((each) => ({ ...each, word: `${head}${each.word}` }));
  }

  async ofFlag(flag: FlagSpec, partial: string): Promise<Candidates> {
    const source = flag.kind === 'source' ? partial.split(':', 2) : [];
    if (source.length === 2) return await this.#snapshots(source[0], `${source[0]}:`);
    const found = await this.of(flag);
    // A list with commas: what is typed stays in front.
    const typed = partial.slice(0, partial.lastIndexOf(',') + 1);
    if (found === ':files' || typed === '') return found;
    return found.map((each) => ({ ...each, word: `${typed}${each.word}` }));
  }

  async #ofKind(kind: WordKind): Promise<Candidates> {
    switch (kind) {
      case 'file':
      case 'directory':
        return ':files';
      case 'sandbox':
      case 'source':
        return await this.#sandboxes();
      case 'box':
        return await this.#boxes();
      case 'image':
        return (await listAll<Image>(this.#client, imagesPath)).map(({ name }) => ({ word: name }));
      case 'module':
        return (await this.#client.get<readonly ModuleAnswer[]>(modulesPath)).map(({ name }) => ({
          word: name,
        }));
      case 'snapshot':
        return await this.#snapshots();
      case 'volume':
        return (await listVolumes(this.#client)).map(({ name, snapshot_of }) => ({
          word: name,
          about: snapshot_of === null ? 'volume' : 'snapshot',
        }));
      case 'job':
        return await this.#jobs();
      case 'process':
        return await this.#processes();
      case 'context':
        return await this.#contexts();
      case 'secret':
        return (await this.#client.get<readonly SecretInfo[]>(secretsPath())).map((each) => ({
          word: each.name,
          about: each.allowed_hosts.join(', '),
        }));
      case 'key':
        return (await this.#client.get<KeyList>(keysPath())).items.map(ofOwner);
      case 'sshKey':
        return (await this.#client.get<SshKeyList>(sshKeysPath())).items.map(ofOwner);
      case 'owner':
        return (await this.#client.get<OwnerList>(ownersPath())).items.map((each) => ({ word: each.owner }));
      case 'tier':
      case 'group':
      case 'chat':
        return await this.#named(kind);
      case 'schedule':
        return await this.#schedules();
      case 'held':
        return await this.#held();
      case 'webhook':
        return (await this.#client.get<WebhookList>(webhooksPath())).items.map(({ id, url }) => ({
          word: id,
          about: url,
        }));
      case 'preset':
        return (await this.#presets()).map(({ name, summary }) => ({
          word: `preset:${name}`,
          about: summary,
        }));
      case 'layerPreset':
        return [
          ...(await listLayerPresets()).map(({ name, summary }) => ({ word: name, about: summary })),
          { word: 'from-dir', about: 'a directory of this machine' },
        ];
      case 'command':
        return commandWords([]);
      case 'text':
        return [];
    }
  }

  async #named(kind: 'tier' | 'group' | 'chat'): Promise<readonly Candidate[]> {
    const path = { tier: tiersPath, group: groupsPath, chat: chatsPath }[kind]();
    const { items } = await this.#client.get<All<{ readonly name: string }>>(path);
    return items.map(({ name }) => ({ word: name }));
  }

  /** Of the chat before. */
  async #schedules(): Promise<readonly Candidate[]> {
    const path = schedulesPath([], { chat: this.#sandbox });
    const { items } = await this.#client.get<All<Schedule>>(path);
    return items.map(({ name, state }) => ({ word: name, about: state }));
  }

  /** What agents of groups wait for. */
  async #held(): Promise<readonly Candidate[]> {
    const { items } = await this.#client.get<All<Action>>(actionsPath([], { state: 'held' }));
    return items.map(({ number, group, action }) => ({ word: `${number}`, about: `${group}, ${action}` }));
  }

  async #sandboxes(): Promise<readonly Candidate[]> {
    const sandboxes = await this.#client.get<readonly SandboxInfo[]>(sandboxesPath);
    return sandboxes.map((each) => ({ word: each.id, about: each.task === '' ? each.state : each.task }));
  }

  /** Of the daemon that boxes run under, where it runs: a person pressing Tab starts none. */
  async #boxes(): Promise<readonly Candidate[]> {
    const { runningBoxes } = await import('../box/boxes.ts');
    return (await runningBoxes()).flatMap(({ id, name, state }) => [
      ...(name === null ? [] : [{ word: name, about: id }]),
      { word: id, about: name ?? state },
    ]);
  }

  /** The installation's own ones as well, where its daemon answers. */
  async #presets(): Promise<readonly Pick<Preset, 'name' | 'summary'>[]> {
    return await this.#client.get<readonly Preset[]>(presetsPath).catch(() => presets);
  }

  async #contexts(): Promise<readonly Candidate[]> {
    if (this.#sandbox === undefined) return [];
    const path = sandboxRecordPath(this.#sandbox, 'contexts');
    const { items } = await this.#client.get<{ readonly items: readonly Context[] }>(path);
    return items.map(({ context, language }) => ({ word: context, about: language }));
  }

  async #snapshots(sandbox = this.#sandbox, head = ''): Promise<readonly Candidate[]> {
    if (sandbox === undefined) return [];
    const info = await this.#client.get<SandboxInfo>(sandboxPath(sandbox));
    return info.snapshots.map((each) => ({ word: `${head}${each.label}`, about: each.created }));
  }

  async #jobs(): Promise<readonly Candidate[]> {
    if (this.#sandbox === undefined) return [];
    const all = await listProcesses(this.#client, this.#sandbox);
    return all
      .filter(({ kind }) => kind === 'process' || kind === 'job')
      .map((each) => ({ word: `${each.process}`, about: each.command }));
  }

  /** Those that run, by number and, where a shell takes it as one word, by tag. */
  async #processes(): Promise<readonly Candidate[]> {
    if (this.#sandbox === undefined) return [];
    const running = await listProcesses(this.#client, this.#sandbox, { state: 'running' });
    return running.flatMap(({ process, tag, command }) => {
      const numbered = { word: `${process}`, about: command };
      const isWord = tag !== null && /^[A-Za-z][\w.+@-]*$/.test(tag);
      return isWord ? [numbered, { word: tag, about: command }] : [numbered];
    });
  }
}

function tryParse(
  spec: CommandSpec | undefined,
  words: readonly string[],
): ReturnType<typeof parseArguments> | undefined {
  try {
    return parseArguments({ flags: spec?.flags ?? [] }, words);
  } catch {
    // A line that is still being typed is often wrong.
    return undefined;
  }
}

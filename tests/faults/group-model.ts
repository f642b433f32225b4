/**
 * What somebody outside knows of two groups whose daemon is killed again and again: what was acknowledged, and what he has seen. Whatever
 * he sees afterwards has to fit: nothing that was acknowledged is missing, nothing is there twice, nothing that was seen is other.
 */
import assert from 'node:assert/strict';
import type { Action } from '@squash/contract/actions';
import type { Chat, OutMessage, Run } from '@squash/contract/groups';
import type { ScheduleRun } from '@squash/contract/schedules';
import { type GroupScene, isLeft } from '../support/group-scene.ts';
import { waitFor } from '../support/wait.ts';

/** By tier: `warm-main` may do all, as `main`, and its sandboxes are kept; what `trusted` does in others' chats waits for a person. */
export const tiers = { boss: 'warm-main', helper: 'trusted' } as const;
export type GroupName = keyof typeof tiers;
export const groupNames = Object.keys(tiers) as readonly GroupName[];
/** Two conversations of each group. */
export const chats = groupNames.flatMap((group) => [group, `${group}-more`]);

export function groupOf(chat: string): GroupName {
  return chat.startsWith('boss') ? 'boss' : 'helper';
}

/**
 * An agent that writes down in its folder each attempt of a run, and each text that it got; it then speaks in its chat, asks for what the
 * texts want it to, and again where it hears no answer. A `flaky` text has the first attempt fail without a trace.
 */
export const agent = `cat >/tmp/in
echo $SQUASH_RUN >>begun
if grep -q flaky /tmp/in && test $(grep -cx $SQUASH_RUN begun) -lt 2; then exit 7; fi
grep -o '>[mts]-[0-9a-z-]*<' /tmp/in | tr -d '<>' | while read text; do echo $SQUASH_CHAT $SQUASH_RUN $text; done >>seen
echo begin $SQUASH_RUN
sure() { until act "{\\"id\\":\\"$1-$SQUASH_RUN\\",\\"action\\":\\"$2\\",\\"chat\\":\\"$3\\",\\"text\\":\\"$4\\"}" | grep -q '"state"'; do sleep 0.1; done; }
sure own message.send $SQUASH_CHAT acted
case $SQUASH_GROUP in boss) other=helper;; *) other=boss;; esac
if grep -q ask /tmp/in; then sure ask message.send $other asked; fi
sleep 0.$((SQUASH_RUN % 4))
if grep -q wake /tmp/in; then sure wake run.start $other s-$SQUASH_RUN; fi
echo end $SQUASH_RUN`;

interface Sent {
  readonly text: string;
  readonly chat: string;
  /** The highest number that was acknowledged in the chat before it was sent: its own is higher. */
  readonly behind: number;
  /** Null: nobody was heard. */
  readonly number: number | null;
}

interface Seen {
  readonly chat: string;
  readonly run: number;
  readonly text: string;
}

export class GroupModel {
  readonly #sent = new Map<string, Sent>();
  readonly #decided = new Map<number, { readonly decision: 'allow' | 'deny'; readonly isHeard: boolean }>();
  /** Schedules that come once, by their text; whether their making was acknowledged. */
  readonly #onces = new Map<string, boolean>();
  readonly #out = new Map<string, readonly OutMessage[]>(chats.map((chat) => [chat, []]));
  readonly #lines = new Map<string, Map<string, ScheduleRun>>();
  readonly #runs = new Map<number, Run>();
  /** By chat: it has one, and no other ever. */
  readonly #sessions = new Map<string, string>();
  readonly #actions = new Map<number, Action>();
  /** Of what was stored. */
  #lostAnswers = 0;
  #seen: Readonly<Record<GroupName, readonly Seen[]>> = { boss: [], helper: [] };
  #begun: Readonly<Record<GroupName, readonly number[]>> = { boss: [], helper: [] };

  /** Those that nobody was heard of. */
  get unheard(): readonly Sent[] {
    return [...this.#sent.values()].filter(({ number }) => number === null);
  }

  get counts(): Readonly<Record<string, number>> {
    return {
      messages: this.#sent.size,
      'lost answers': this.#lostAnswers,
      runs: this.#runs.size,
      'in sandboxes that were kept': [...this.#runs.values()].filter(({ warm }) => warm).length,
      actions: this.#actions.size,
      decisions: this.#decided.size,
      'times of schedules': [...this.#lines.values()].reduce((sum, lines) => sum + lines.size, 0),
    };
  }

  /** Sends it, again with its id where it was sent before. @throws where the daemon dies before it answers */
  async send(scene: GroupScene, { chat, text }: Pick<Sent, 'chat' | 'text'>): Promise<void> {
    const known = this.#sent.get(text);
    const before = known ?? { text, chat, behind: this.#last(chat), number: null };
    this.#sent.set(text, before);
    const { message, reason } = await scene.say(chat, text, { id: text });
    if (known !== undefined && reason === 'it came before, with this id') this.#lostAnswers += 1;
    assert.ok(message !== null && message > before.behind, `${text} is ${message}, behind ${before.behind}`);
    assert.ok(before.number === null || before.number === message, `${text} was ${before.number}`);
    this.#sent.set(text, { ...before, number: message });
  }

  /** A person's word: the first holds, whatever he says afterwards. @throws where the daemon dies before it answers */
  async decide(scene: GroupScene, number: number, decision: 'allow' | 'deny'): Promise<void> {
    const known = this.#decided.get(number);
    this.#decided.set(number, known ?? { decision, isHeard: false });
    const { status, json } = await scene.daemon.request('POST', `/v1/group-actions/${number}`, { decision });
    if (known === undefined || status === 200) {
      assert.equal(status, 200, `${number}: ${JSON.stringify(json)}`);
      assert.ok(known?.isHeard !== true, `action ${number} was decided twice`);
      assert.equal(json.state, stateBy[decision], `${number}: ${JSON.stringify(json)}`);
    } else {
      assert.equal(json.code, 'action_decided');
      if (!known.isHeard) this.#lostAnswers += 1;
    }
    this.#decided.set(number, { decision: known?.decision ?? decision, isHeard: true });
  }

  /** What he has said first of each, and whether he heard that it was done. */
  decisions(): readonly (readonly [
    number,
    { readonly decision: 'allow' | 'deny'; readonly isHeard: boolean },
  ])[] {
    return [...this.#decided];
  }

  /** @throws where the daemon dies before it answers */
  async scheduleOnce(
    scene: GroupScene,
    { chat, text, afterMs }: { chat: string; text: string; afterMs: number },
  ) {
    this.#onces.set(text, false);
    const at = new Date(Date.now() + afterMs).toISOString();
    await scene.call('POST', '/v1/schedules', { chat, name: text, text, at, context: 'isolated' });
    this.#onces.set(text, true);
  }

  /** Each is somebody's: a session is named in its chat before it is made. */
  async #checkVolumes(scene: GroupScene): Promise<void> {
    const { items: volumes } = await scene.call<{ items: { name: string }[] }>('GET', '/v1/volumes');
    const { items } = await scene.call<{ items: Chat[] }>('GET', '/v1/chats');
    for (const { name, session } of items) {
      const known = this.#sessions.get(name);
      assert.ok(known === undefined || known === session, `${name} had ${known}, and has ${session}`);
      if (session !== null) this.#sessions.set(name, session);
    }
    const sessions = new Set(this.#sessions.values());
    const strange = volumes.filter(
      ({ name }) => !/^group-\d+$/.test(name) && name !== 'groups-global' && !sessions.has(name),
    );
    assert.deepEqual(strange, []);
    assert.ok(volumes.length <= groupNames.length + sessions.size + 1);
  }

  /** Looks at everything. @throws at what is missing, twice, other, or out of its order */
  async check(scene: GroupScene): Promise<void> {
    for (const chat of chats) await this.#checkOut(scene, chat);
    await this.#checkVolumes(scene);
    for (const group of groupNames) {
      const { items: runs } = await scene.call<{ items: Run[] }>(
        'GET',
        `/v1/groups/${group}/runs?limit=1000`,
      );
      for (const run of runs)
        keep(this.#runs, [run.run, run], (was) => was.finished_at !== null && was.sandbox === null);
    }
    const { items: actions } = await scene.call<{ items: Action[] }>('GET', '/v1/group-actions?limit=1000');
    for (const action of actions)
      keep(this.#actions, [action.number, action], ({ state }) => state !== 'held');
    const ids = [...this.#actions.values()].map(({ group, id }) => `${group} ${id}`);
    assert.equal(new Set(ids).size, ids.length, 'an action twice');
    await this.#checkLines(scene);
  }

  /** When nothing goes on any more: with what each group's folder holds, as `begun`, a line of two dashes, and `seen`. */
  checkAtRest(folders: Readonly<Record<GroupName, string>>): void {
    for (const group of groupNames) this.#checkFolder(group, folders[group]);
    const runs = [...this.#runs.values()];
    for (const { run, state, reason, group } of runs) {
      assert.equal(state, 'done', `run ${run}: ${reason}`);
      // A daemon that dies just before a command starts costs an attempt in which nothing began: of attempts there may be more.
      const begun = this.#begun[group as GroupName].filter((each) => each === run).length;
      const isFlaky = this.#seen[group as GroupName].some(
        (each) => each.run === run && each.text.endsWith('flaky'),
      );
      assert.equal(begun, isFlaky ? 2 : 1, `run ${run}`);
    }
    const seen = groupNames.flatMap((group) => this.#seen[group]);
    const count = (text: string): number => seen.filter((each) => each.text === text).length;
    for (const { text, number } of this.#sent.values())
      assert.equal(count(text), number === null ? Math.min(1, count(text)) : 1, text);
    for (const { run, chat } of runs) this.#checkSaid(run, chat);
    for (const action of this.#actions.values()) this.#checkAction(action, count);
    this.#checkTimes(seen);
  }

  #last(chat: string): number {
    return Math.max(
      0,
      ...[...this.#sent.values()].filter((each) => each.chat === chat).map(({ number }) => number ?? 0),
    );
  }

  async #checkOut(scene: GroupScene, chat: string): Promise<void> {
    const known = this.#out.get(chat) ?? [];
    // The last that was seen is asked for again: it has to be the same.
    const after = known.at(-2)?.message ?? 0;
    const { items } = await scene.call<{ items: OutMessage[] }>(
      'GET',
      `/v1/chats/${chat}/messages?limit=1000&after=${after}`,
    );
    if (known.length > 0) assert.deepEqual(items[0], known.at(-1), `what was said in ${chat} is other`);
    const all = known.length > 1 ? [...known.slice(0, -1), ...items] : items;
    this.#out.set(chat, all);
    for (const [at, { message }] of all.entries())
      assert.ok(message > (all[at - 1]?.message ?? 0), `order in ${chat}`);
    const acted = all.filter(({ action }) => action !== null).map(({ by, action }) => `${by} ${action}`);
    assert.equal(new Set(acted).size, acted.length, `${chat}: ${acted.join(', ')}`);
    for (const run of new Set(all.map((each) => each.run))) {
      const whole = `begin ${run}\nend ${run}\n`;
      const printed = all
        .filter((each) => each.run === run && each.action === null)
        .map(({ text }) => text)
        .join('');
      assert.ok(whole.startsWith(printed), `run ${run} printed ${printed}`);
    }
  }

  async #checkLines(scene: GroupScene): Promise<void> {
    const { items } = await scene.call<{
      items: { chat: string; name: string; every_s: number | null; created_at: string }[];
    }>('GET', '/v1/schedules');
    for (const { chat, name, every_s, created_at } of items) {
      const { items: lines } = await scene.call<{ items: ScheduleRun[] }>(
        'GET',
        `/v1/schedules/${chat}/${name}/runs`,
      );
      assert.equal(new Set(lines.map(({ due_at }) => due_at)).size, lines.length, `${name}: a time twice`);
      const known = this.#lines.get(name) ?? new Map<string, ScheduleRun>();
      this.#lines.set(name, known);
      for (const line of lines) {
        const { state: _state, ...rest } = line;
        keep(known, [line.due_at, { ...rest, state: null }], () => true);
        const sinceMs = Date.parse(line.due_at) - Date.parse(created_at);
        if (every_s !== null) assert.equal(sinceMs % (every_s * 1_000), 0, `${name} drifts: ${line.due_at}`);
        else assert.equal(lines.length, 1, name);
      }
    }
    const started = [...this.#lines.values()]
      .flatMap((lines) => [...lines.values()])
      .filter(({ verdict }) => verdict === 'started');
    for (const { due_at, run } of started) assert.ok(run !== null, due_at);
  }

  #checkFolder(group: GroupName, text: string): void {
    const [begun = '', seen = ''] = text.split('--\n');
    const lines = seen.split('\n').filter((line) => line !== '');
    const all = lines.map((line): Seen => {
      const [chat = '', run, said = ''] = line.split(' ');
      return { chat, run: Number(run), text: said };
    });
    const before = this.#seen[group];
    assert.deepEqual(all.slice(0, before.length), before, 'what an agent wrote is lost');
    this.#seen = { ...this.#seen, [group]: all };
    this.#begun = {
      ...this.#begun,
      [group]: begun
        .split('\n')
        .filter((line) => line !== '')
        .map(Number),
    };
    const once = all.filter(({ text: each }) => !isInterval(each)).map((each) => each.text);
    assert.deepEqual([...new Set(once)], once, `${group} got a text twice`);
    for (const chat of chats) {
      const numbers = all.flatMap((each) =>
        each.chat === chat ? [this.#sent.get(each.text)?.number ?? []].flat() : [],
      );
      assert.deepEqual(
        numbers,
        numbers.toSorted((a, b) => a - b),
        `order in ${chat}`,
      );
    }
  }

  #checkSaid(run: number, chat: string): void {
    const said = (this.#out.get(chat) ?? []).filter((each) => each.run === run);
    const printed = said
      .filter(({ action }) => action === null)
      .map(({ text }) => text)
      .join('');
    assert.equal(printed, `begin ${run}\nend ${run}\n`);
    assert.equal(said.filter(({ action }) => action === `own-${run}`).length, 1, `run ${run} spoke`);
  }

  /** Done is there once, all else not. */
  #checkAction({ number, group, id, run, request, state }: Action, count: (text: string) => number): void {
    const decided = this.#decided.get(number);
    const isHeld = group === 'helper' && !id.startsWith('own');
    assert.equal(decided !== undefined, isHeld, `action ${number} (${id}) is ${state}`);
    assert.equal(state, decided === undefined ? 'done' : stateBy[decided.decision], `action ${number}`);
    const said = (this.#out.get(String(request['chat'])) ?? []).filter(
      (each) => each.by === group && each.action === id,
    );
    const isStart = request['action'] === 'run.start';
    assert.equal(said.length, state === 'done' && !isStart ? 1 : 0, `action ${number} (${id}) is ${state}`);
    if (isStart)
      assert.equal(count(`s-${run}`), state === 'done' ? 1 : 0, `action ${number} (${id}) is ${state}`);
  }

  /** A run for each time that started one, and none besides. */
  #checkTimes(seen: readonly Seen[]): void {
    const runs: number[] = [];
    for (const [name, lines] of this.#lines) {
      const started = [...lines.values()].flatMap(({ verdict, run }) => (verdict === 'started' ? [run] : []));
      const got = seen.filter(({ text }) => text === name).map(({ run }) => run);
      assert.deepEqual(
        got.toSorted((a, b) => a - b),
        started.toSorted((a, b) => Number(a) - Number(b)),
        name,
      );
      runs.push(...got);
      if (isInterval(name)) continue;
      assert.ok(this.#onces.has(name), name);
      assert.equal(got.length, 1, name);
    }
    for (const [name, isHeard] of this.#onces)
      assert.ok(!isHeard || this.#lines.has(name), `${name} never came`);
  }
}

const stateBy = { allow: 'done', deny: 'denied' } as const;

/** Texts of schedules that come again and again. */
function isInterval(text: string): boolean {
  return text.startsWith('t-every');
}

/** What is settled stays as it is. */
function keep<K, V>(known: Map<K, V>, [key, value]: readonly [K, V], isSettled: (was: V) => boolean): void {
  const was = known.get(key);
  if (was !== undefined && isSettled(was)) assert.deepEqual(value, was, 'what was settled is other');
  known.set(key, value);
}

/** Resolves when nothing waits and nothing runs. */
export async function atRest(scene: GroupScene): Promise<void> {
  await waitFor(
    'all runs to end',
    async () => {
      const all = (await Promise.all(groupNames.map((group) => scene.runs(group)))).flat();
      return all.every(isLeft);
    },
    240_000,
  );
}

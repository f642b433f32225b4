/** Groups of agents, the tiers that say how far they are trusted, and the chats in which they are spoken to. */
import { type Connection, type Signal } from './connection.ts';
import { dataOf, follow } from './follow.ts';
import type {
  Chat,
  ChatChange,
  ChatCreate,
  ChatMessage,
  ChatMessageTaken,
  ChatSaid,
  Group,
  GroupAction,
  GroupActionDecision,
  GroupChange,
  GroupCreate,
  GroupRun,
  Operations,
  Tier,
  TierChange,
} from './records.gen.ts';
import { Schedules } from './schedules.ts';

export type ActionFilter = Operations['group.actions']['query'] & Signal;
export type ReadFilter = Omit<Operations['chat.read']['query'], 'follow'> & Signal;
export type FollowFrom = Pick<ReadFilter, 'after' | 'signal'>;

class Tiers {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** `tier.list` */
  async list(options: Signal = {}): Promise<readonly Tier[]> {
    return (await this.#connection.call('tier.list', options)).items;
  }

  /** `tier.set`: makes it, or changes it whole. @throws Conflict for one that is built in */
  async set(tier: string, { signal, ...body }: TierChange & Signal): Promise<Tier> {
    return await this.#connection.call('tier.set', { path: { tier }, body, signal });
  }

  /** `tier.remove` @throws Conflict while groups are of it */
  async remove(tier: string, options: Signal = {}): Promise<void> {
    await this.#connection.call('tier.remove', { path: { tier }, ...options });
  }
}

class Chats {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** `chat.create` @throws Conflict, NotFound */
  async create({ signal, ...body }: ChatCreate & Signal): Promise<Chat> {
    return await this.#connection.call('chat.create', { body, signal });
  }

  /** `chat.list` */
  async list(options: Signal = {}): Promise<readonly Chat[]> {
    return (await this.#connection.call('chat.list', options)).items;
  }

  /** `chat.update`: what is named, for messages that come later. @throws NotFound */
  async update(chat: string, { signal, ...body }: ChatChange & Signal): Promise<Chat> {
    return await this.#connection.call('chat.update', { path: { chat }, body, signal });
  }

  /** `chat.remove`: with all that was said in it, and its session. @throws Conflict while a run of it is on its way */
  async remove(chat: string, options: Signal = {}): Promise<void> {
    await this.#connection.call('chat.remove', { path: { chat }, ...options });
  }

  /** `chat.reset`: its next run begins a new conversation. @throws Conflict while a run of it is on its way */
  async reset(chat: string, options: Signal = {}): Promise<void> {
    await this.#connection.call('chat.reset', { path: { chat }, ...options });
  }

  /** `chat.message`: brings one in. With an `id` it may be sent again. */
  async message(chat: string, { signal, ...body }: ChatMessage & Signal): Promise<ChatMessageTaken> {
    return await this.#connection.call('chat.message', { path: { chat }, body, signal });
  }

  /** `chat.read`: what agents have said, oldest first. */
  async read(chat: string, { signal, ...query }: ReadFilter = {}): Promise<readonly ChatSaid[]> {
    return (await this.#connection.call('chat.read', { path: { chat }, query, signal })).items;
  }

  /**
   * `chat.read`: each as it is said, and none twice or lost where the connection breaks; behind the number `after`, else from now on. Without
   * end. @throws NotFound, also when the chat is removed
   */
  async *follow(chat: string, { after, signal }: FollowFrom = {}): AsyncGenerator<ChatSaid, void, void> {
    const query = { follow: 'true' as const, ...(after !== undefined && { after }) };
    const options = { path: { chat }, query, signal, isLast: () => false };
    for await (const event of follow(this.#connection, 'chat.read', options))
      if (event.name === 'said') yield dataOf(event) as ChatSaid;
  }
}

export class Groups {
  readonly tiers: Tiers;
  readonly chats: Chats;
  readonly schedules: Schedules;
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.tiers = new Tiers(connection);
    this.chats = new Chats(connection);
    this.schedules = new Schedules(connection);
    this.#connection = connection;
  }

  /** `group.create` @throws Conflict, NotFound, Forbidden where the tier does not allow it */
  async create({ signal, ...body }: GroupCreate & Signal): Promise<Group> {
    return await this.#connection.call('group.create', { body, signal });
  }

  /** `group.list` */
  async list(options: Signal = {}): Promise<readonly Group[]> {
    return (await this.#connection.call('group.list', options)).items;
  }

  /** `group.get` @throws NotFound */
  async get(group: string, options: Signal = {}): Promise<Group> {
    return await this.#connection.call('group.get', { path: { group }, ...options });
  }

  /** `group.update`: what is named, a list as a whole, for runs that begin later. @throws NotFound, Forbidden where the tier does not allow it */
  async update(group: string, { signal, ...body }: GroupChange & Signal): Promise<Group> {
    return await this.#connection.call('group.update', { path: { group }, body, signal });
  }

  /** `group.remove`: with its chats and its folder. @throws Conflict while a run is on its way */
  async remove(group: string, options: Signal = {}): Promise<void> {
    await this.#connection.call('group.remove', { path: { group }, ...options });
  }

  /** `group.runs`: newest first. */
  async runs(group: string, options: Signal = {}): Promise<readonly GroupRun[]> {
    return (await this.#connection.call('group.runs', { path: { group }, ...options })).items;
  }

  /** `group.actions`: what agents have asked for, newest first; `{state: 'held'}` is what waits for a person. */
  async actions({ signal, ...query }: ActionFilter = {}): Promise<readonly GroupAction[]> {
    return (await this.#connection.call('group.actions', { query, signal })).items;
  }

  /** `group.decide` @throws Conflict where it does not wait */
  async decide(action: number, { signal, ...body }: GroupActionDecision & Signal): Promise<GroupAction> {
    return await this.#connection.call('group.decide', { path: { number: action }, body, signal });
  }
}

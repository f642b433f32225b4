/**
 * What connections and requests wait for a person to say. Those of one sandbox with the same question share it.
 *
 * What a newcomer would get wrong: an answer lets go who waits at that moment, and nobody else. What a person allows for longer
 * becomes a rule, which comes from the daemon as any other. Nothing here is on a disk: with this process every question
 * ends, connections that waited come back by way of their relay, and are asked for again.
 */
import { randomBytes } from 'node:crypto';
import { TokenBucket } from '@squash/base/token-bucket';
import type { EgressAsked, EgressQuestionEnd } from '@squash/contract/egress-protocol';
import { type Question, questionKey, type Verdict } from '@squash/policy/policy';
import { egressLimits as limits } from '../limits.ts';

/** A question, and what made it. */
export interface Asker {
  readonly sandbox: string;
  readonly question: Question;
  /** The rule of `ask`. */
  readonly rule: string;
  /** Of the request that waits, as an example. */
  readonly method?: string | undefined;
  readonly path?: string | undefined;
}

export interface Asking {
  /** Waits no more; nothing where it has been answered. */
  leave(): void;
}

/** Undefined: it is allowed. */
type Settle = (refusal: Verdict | undefined) => void;

interface Open {
  readonly asked: EgressAsked;
  readonly key: string;
  readonly share: Share;
  readonly askers: Set<Settle>;
  readonly timer: NodeJS.Timeout;
}

export interface QuestionFollower {
  readonly onAsked: (asked: EgressAsked) => void;
  readonly onEnded: (end: EgressQuestionEnd) => void;
}

interface Share {
  open: number;
  askers: number;
  /** Its sandbox is gone, and some who waited have not heard of it yet. */
  isLeft: boolean;
  readonly rate: TokenBucket;
  /** Until when a question that was answered with no is not put again. */
  readonly deniedUntilMs: Map<string, number>;
}

export class Questions {
  readonly stats = { asked: 0, refused: 0 };
  readonly #clock: { readonly wallMs: () => number; readonly monoMs: () => number };
  readonly #open = new Map<string, Open>();
  readonly #byKey = new Map<string, Open>();
  readonly #shares = new Map<string, Share>();
  readonly #followers = new Set<QuestionFollower>();
  #askers = 0;

  constructor(clock: { readonly wallMs: () => number; readonly monoMs: () => number }) {
    this.#clock = clock;
  }

  get waiting(): { readonly questions: number; readonly askers: number } {
    return { questions: this.#open.size, askers: this.#askers };
  }

  /** `settle` is called once, later, unless who asked has left before. @returns a verdict where nobody is asked */
  ask(asker: Asker, settle: Settle): Asking | Verdict {
    const key = `${asker.sandbox} ${questionKey(asker.question)}`;
    const share = this.#shareOf(asker.sandbox);
    const nowMs = this.#clock.monoMs();
    if ((share.deniedUntilMs.get(key) ?? 0) > nowMs) return denied;
    const isFull = share.askers >= limits.sandboxAskersMax || this.#askers >= limits.askersMax;
    const open = isFull ? undefined : (this.#byKey.get(key) ?? this.#put(asker, key, share));
    if (open === undefined) {
      this.stats.refused += 1;
      return tooMany;
    }
    open.askers.add(settle);
    share.askers += 1;
    this.#askers += 1;
    return {
      leave: () => {
        if (!this.#removeAsker(open, settle) || open.askers.size > 0) return;
        this.#end(open, 'withdrawn');
      },
    };
  }

  /** False: nobody waits for it any more. */
  answer(id: string, isAllowed: boolean): boolean {
    const open = this.#open.get(id);
    if (open === undefined) return false;
    if (!isAllowed) this.#remember(open);
    this.#end(open, 'answered', isAllowed ? undefined : denied);
    return true;
  }

  /** What is open now, then what becomes of it. */
  follow(follower: QuestionFollower): { readonly open: readonly EgressAsked[] } & Disposable {
    this.#followers.add(follower);
    return {
      open: [...this.#open.values()].map(({ asked }) => asked),
      [Symbol.dispose]: () => void this.#followers.delete(follower),
    };
  }

  /** Of a sandbox that is gone: who waited has been ended. */
  forget(sandbox: string): void {
    const share = this.#shares.get(sandbox);
    if (share === undefined) return;
    share.isLeft = true;
    if (share.askers === 0) this.#shares.delete(sandbox);
  }

  #put(asker: Asker, key: string, share: Share): Open | undefined {
    const isFull = share.open >= limits.sandboxQuestionsMax || this.#open.size >= limits.questionsMax;
    if (isFull || !share.rate.take(this.#clock.monoMs())) return undefined;
    const id = `appr_${randomBytes(10).toString('hex')}`;
    const asked = askedOf(asker, { id, nowMs: this.#clock.wallMs() });
    const open: Open = {
      asked,
      key,
      share,
      askers: new Set(),
      timer: setTimeout(() => this.#end(open, 'timed_out', timedOut), asker.question.waitMs),
    };
    this.#open.set(id, open);
    this.#byKey.set(key, open);
    share.open += 1;
    this.stats.asked += 1;
    for (const { onAsked } of this.#followers) onAsked(asked);
    return open;
  }

  #end(open: Open, end: EgressQuestionEnd['end'], refusal?: Verdict): void {
    clearTimeout(open.timer);
    const { id } = open.asked;
    this.#open.delete(id);
    this.#byKey.delete(open.key);
    open.share.open -= 1;
    const askers = [...open.askers];
    for (const settle of askers) this.#removeAsker(open, settle);
    if (refusal !== undefined) this.stats.refused += askers.length;
    for (const { onEnded } of this.#followers) onEnded({ id, end });
    for (const settle of askers) settle(refusal);
  }

  #removeAsker(open: Open, settle: Settle): boolean {
    if (!open.askers.delete(settle)) return false;
    const { share, asked } = open;
    share.askers -= 1;
    this.#askers -= 1;
    if (share.askers === 0 && this.#shares.get(asked.sandbox) === share && share.isLeft)
      this.#shares.delete(asked.sandbox);
    return true;
  }

  /** A program that tries again at once must not be asked about again at once. */
  #remember({ key, share: { deniedUntilMs } }: Open): void {
    for (const oldest of deniedUntilMs.keys()) {
      if (deniedUntilMs.size < limits.deniedQuestionsMax) break;
      deniedUntilMs.delete(oldest);
    }
    deniedUntilMs.set(key, this.#clock.monoMs() + limits.deniedMs);
  }

  #shareOf(sandbox: string): Share {
    let share = this.#shares.get(sandbox);
    // Another one of the same id.
    if (share?.isLeft !== false) {
      const rate = { perS: limits.sandboxQuestionsPerS, burst: limits.sandboxQuestionsBurst };
      share = {
        open: 0,
        askers: 0,
        isLeft: false,
        rate: new TokenBucket(rate, this.#clock.monoMs()),
        deniedUntilMs: new Map(),
      };
      this.#shares.set(sandbox, share);
    }
    return share;
  }
}

const denied: Verdict = { isAllowed: false, rule: 'ask_denied' };
const timedOut: Verdict = { isAllowed: false, rule: 'ask_timed_out' };
const tooMany: Verdict = { isAllowed: false, rule: 'ask_limit' };

export function isAsking(answer: Asking | Verdict): answer is Asking {
  return 'leave' in answer;
}

function askedOf(
  { sandbox, question, rule, method, path }: Asker,
  { id, nowMs }: { readonly id: string; readonly nowMs: number },
): EgressAsked {
  const cut = (text: string | undefined): string | null =>
    text === undefined ? null : text.slice(0, limits.decisionTextMax);
  return {
    id,
    sandbox,
    host: question.host ?? null,
    address: question.address ?? null,
    port: question.port,
    method: cut(method),
    path: cut(path),
    rule: rule.slice(0, limits.decisionTextMax),
    grant: {
      method: question.method ?? null,
      path: question.path ?? null,
      upgrades: question.upgrades === undefined ? [] : [...question.upgrades],
    },
    asked_ms: nowMs,
    expires_ms: nowMs + question.waitMs,
  };
}

/**
 * The operator's ceilings: what one sandbox may ask for. More is refused; whoever asks for nothing gets the usual share,
 * or the ceiling where that is less, so that requests without numbers go on working under any ceiling.
 */
import { availableParallelism, totalmem } from 'node:os';
import { AppError } from '@squash/contract/errors';
import { askedByDefault, type CreateRequest, type CreateWish } from '@squash/contract/sandbox';

export interface Ceilings {
  readonly cpuMax: number;
  readonly memoryMbMax: number;
  /** 0: none. */
  readonly lifetimeSMax: number;
}

/** What is asked for; undefined: the daemon chooses. A lifetime of 0 is none at all. */
type Shares = Pick<CreateWish, 'cpu' | 'memoryMb' | 'maxLifetimeS'>;

/** @param doing what is refused, as in `Cannot create sandbox "dev"`. @throws ceiling_exceeded */
export function checkCeilings(wish: Shares, ceilings: Ceilings, doing: string): void {
  const { cpuMax, memoryMbMax, lifetimeSMax } = ceilings;
  const exceeded = (why: string): AppError => new AppError('ceiling_exceeded', `Cannot ${doing}: ${why}`);
  const check = (field: string, asked: number | undefined, most: readonly [string, number]): void => {
    const [setting, max] = most;
    if (asked === undefined || asked <= max) return;
    throw exceeded(`${field} is ${asked}, and ${setting} allows ${max}`);
  };
  check('cpu', wish.cpu, ['SQUASH_MAX_CPU', cpuMax]);
  check('memory_mb', wish.memoryMb, ['SQUASH_MAX_MEMORY_MB', memoryMbMax]);
  if (lifetimeSMax === 0) return;
  check('max_lifetime_s', wish.maxLifetimeS, ['SQUASH_MAX_LIFETIME_S', lifetimeSMax]);
  if (wish.maxLifetimeS === 0)
    throw exceeded(`max_lifetime_s is 0 (unlimited), and SQUASH_MAX_LIFETIME_S allows ${lifetimeSMax}`);
}

const bytesPerMb = 1_048_576;

/** On the host's own root runs what would run on the host without it: it may use what there is, unless somebody says less. */
function usualShares(wish: CreateWish): Pick<CreateRequest, 'cpu' | 'memoryMb'> {
  if (wish.native?.hostRoot === undefined) return askedByDefault;
  return { cpu: availableParallelism(), memoryMb: Math.floor(totalmem() / bytesPerMb) };
}

/** @throws ceiling_exceeded */
export function granted(wish: CreateWish, ceilings: Ceilings): CreateRequest {
  const { cpuMax, memoryMbMax, lifetimeSMax } = ceilings;
  checkCeilings(wish, ceilings, `create sandbox "${wish.id}"`);
  const usual = usualShares(wish);
  return {
    ...wish,
    cpu: wish.cpu ?? Math.min(usual.cpu, cpuMax),
    memoryMb: wish.memoryMb ?? Math.min(usual.memoryMb, memoryMbMax),
    maxLifetimeS: wish.maxLifetimeS ?? (lifetimeSMax === 0 ? askedByDefault.maxLifetimeS : lifetimeSMax),
  };
}

/**
 * What one run may use, with the reason beside each number. Every limit ends the run with its own error kind or
 * cuts with a mark that says so; none is left to the engine alone.
 */
export interface Limits {
  /** From the moment the code starts to its result; waiting for a person's approval does not count. */
  readonly wallMs: number;
  /** Processor time of the engine's process. */
  readonly cpuMs: number;
  /** What the code may hold, ArrayBuffers included; the engine itself is not counted. */
  readonly memoryMb: number;
  readonly codeBytes: number;
  readonly toolCalls: number;
  /** Tools that run at the same time; further calls wait. */
  readonly toolConcurrency: number;
  readonly toolMs: number;
  /** How long a person has to answer for one call. */
  readonly approvalMs: number;
  readonly argBytes: number;
  readonly toolResultBytes: number;
  readonly resultBytes: number;
  readonly logBytes: number;
  readonly logLines: number;
  readonly timers: number;
}

export const defaultLimits: Limits = {
  wallMs: 30_000,
  /** A third of the wall time: waiting for tools is normal, computing for long is not. */
  cpuMs: 10_000,
  /** A page of tool results is megabytes; a model's program that needs more should filter earlier. */
  memoryMb: 128,
  /** The largest programs models write are a tenth of it. */
  codeBytes: 262_144,
  toolCalls: 1000,
  /** More would hit the rate limits of whatever stands behind the tools. */
  toolConcurrency: 32,
  toolMs: 30_000,
  approvalMs: 900_000,
  argBytes: 1_048_576,
  toolResultBytes: 10_485_760,
  /** Goes into a model's context: a megabyte is already more than any takes. */
  resultBytes: 1_048_576,
  logBytes: 1_048_576,
  logLines: 10_000,
  timers: 1000,
};

/** The widest anyone may set: beyond, frames would exceed the protocol's own limit. */
const widest: Limits = {
  wallMs: 86_400_000,
  cpuMs: 86_400_000,
  memoryMb: 4096,
  codeBytes: 4_194_304,
  toolCalls: 1_000_000,
  toolConcurrency: 1024,
  toolMs: 86_400_000,
  approvalMs: 604_800_000,
  argBytes: 11_534_336,
  toolResultBytes: 11_534_336,
  resultBytes: 11_534_336,
  logBytes: 67_108_864,
  logLines: 1_000_000,
  timers: 100_000,
};

/** QuickJS and V8 both need some megabytes to start at all. */
const memoryMbMin = 8;

/**
 * The defaults with what the caller sets instead.
 * @throws RangeError for an unknown name or a number out of range.
 */
export function withDefaults(given: Partial<Limits> = {}): Limits {
  const limits: Limits = { ...defaultLimits, ...withoutUndefined(given) };
  for (const [name, value] of Object.entries(limits)) {
    if (!Object.hasOwn(widest, name)) throw new RangeError(`there is no limit "${name}"`);
    const max = widest[name as keyof Limits];
    const min = name === 'memoryMb' ? memoryMbMin : 1;
    if (!Number.isInteger(value) || value < min || value > max) {
      throw new RangeError(`limit ${name} is a whole number from ${min} to ${max}, not ${value}`);
    }
  }
  return limits;
}

function withoutUndefined(given: Partial<Limits>): Partial<Limits> {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}

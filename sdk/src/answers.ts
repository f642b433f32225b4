/** Reads what a daemon answers: whole, within a limit, as JSON, or as the error that it says. */
import { type Address, describeAddress } from './address.ts';
import { joined } from './bytes.ts';
import { ProtocolError, refusalError, type SquashError } from './errors.ts';
import { version } from './operations.gen.ts';
import { protocolError } from './protocol-error.ts';
import { type WireAnswer } from './transport.ts';

const refusalBytesMax = 1_048_576;

/** @throws ProtocolError where it is longer */
export async function readWhole(answer: Pick<WireAnswer, 'body'>, bytesMax: number): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of answer.body) {
    bytes += part.length;
    if (bytes > bytesMax) throw protocolError(`the daemon's answer is longer than ${bytesMax} bytes`);
    parts.push(part);
  }
  const [only] = parts;
  return parts.length === 1 && only !== undefined ? only : joined(parts);
}

export function parseJson(bytes: Uint8Array, address: Address): object {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder().decode(bytes));
  } catch (cause) {
    throw noDaemon(address, cause);
  }
  if (typeof value !== 'object' || value === null) throw noDaemon(address);
  return value;
}

function noDaemon(address: Address, cause?: unknown): ProtocolError {
  return protocolError(`what answers at ${describeAddress(address)} is no Squash daemon`, {
    remedy: 'Name the address of a daemon: `url`, SQUASH_API',
    cause,
  });
}

export interface Asked {
  /** The operation's id. */
  readonly id: string;
  /** Method and path. */
  readonly request: string;
  readonly address: Address;
}

/** The error that an answer stands for. */
export async function refusalOf(
  answer: WireAnswer,
  asked: Asked,
  daemonVersion: () => Promise<string | undefined>,
): Promise<SquashError> {
  const { status } = answer;
  const { request } = asked;
  const problem = readProblem(await readWhole(answer, refusalBytesMax));
  const { code, message } = problem;
  // An address that it does not know, of which no catalogue says that it is the thing that is missing.
  if (code === 'not_found' || code === 'method_not_allowed')
    return outdated(asked, status, await daemonVersion());
  if (code === undefined || message === undefined) {
    const where = describeAddress(asked.address);
    return protocolError(`what answers at ${where} with status ${status} is no Squash daemon`, {
      status,
      request,
    });
  }
  return refusalError({ code, message, status, request, remedy: problem.remedy ?? '' });
}

function outdated(
  { id, request, address }: Asked,
  status: number,
  daemon: string | undefined,
): ProtocolError {
  const its = daemon === undefined ? 'a version that it does not tell' : `version ${daemon}`;
  return new ProtocolError({
    code: 'daemon_outdated',
    message: `the daemon at ${describeAddress(address)} has no operation ${id}: it is of ${its}, this SDK of ${version}`,
    remedy: 'Upgrade the daemon, or use the SDK of its version',
    status,
    request,
  });
}

interface Problem {
  readonly code?: string;
  readonly message?: string;
  readonly remedy?: string;
}

function readProblem(bytes: Uint8Array): Problem {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    // No JSON: a proxy's page. The status alone is told.
    return {};
  }
  if (typeof value !== 'object' || value === null) return {};
  const fields: Readonly<Record<string, unknown>> = { ...value };
  const text = (name: string): string | undefined =>
    typeof fields[name] === 'string' ? fields[name] : undefined;
  const [code, message, remedy] = [text('code'), text('detail') ?? text('title'), text('remedy')];
  return {
    ...(code !== undefined && { code }),
    ...(message !== undefined && { message }),
    ...(remedy !== undefined && { remedy }),
  };
}

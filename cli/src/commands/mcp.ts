/** `squash mcp`: sandboxes as an MCP server, on standard input and output or, for several clients of this machine, over HTTP. */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mcpLimits, type McpOptions, serveHttp, serveStdio, Squash, ToolError } from '@squash/mcp';
import type { Flags } from '../arguments.ts';
import type { Call } from '../command.ts';
import { CliFailure, exitCodes, usageFailure } from '../failure.ts';
import { interpreterLayers } from '../interpreter-layers.ts';
import { printNote } from '../output/print.ts';
import { mountsOf } from '../mount-words.ts';
import { readCommon } from './create-common.ts';

/** What programs are installed from. For everything else a person is asked. */
const allowedDefault = ['preset:debian', 'preset:pypi', 'preset:npm'];

export async function run(call: Call): Promise<number> {
  const options = optionsOf(call);
  const http = call.flags.text('http');
  const stop = new AbortController();
  const onSignal = () => stop.abort();
  process.once('SIGINT', onSignal).once('SIGTERM', onSignal).once('SIGHUP', onSignal);
  try {
    if (http === undefined) await serveStdio(options, stop.signal);
    else await serveUntil(stop.signal, options, placeOf(http));
  } catch (failure) {
    if (failure instanceof ToolError) throw new CliFailure(failure.code, failure.message);
    throw failure;
  } finally {
    process.off('SIGINT', onSignal).off('SIGTERM', onSignal).off('SIGHUP', onSignal);
    options.squash.close();
  }
  return exitCodes.ok;
}

function optionsOf({ flags, client }: Call): McpOptions {
  const sandbox = flags.text('sandbox');
  const create = createOf(flags);
  if (
    sandbox !== undefined &&
    (create.layers !== undefined || flags.isSet('allow-net') || flags.isSet('policy'))
  )
    throw usageFailure(
      '--sandbox is there already: --layers, --allow-net and --policy are for sandboxes that are made',
    );
  if (flags.isSet('read-only') && sandbox === undefined && !flags.isSet('any-sandbox'))
    throw usageFailure(
      '--read-only tools need something to read: name it with --sandbox, or allow --any-sandbox',
    );
  const chars = flags.integer('output-chars', {
    min: mcpLimits.outputCharsLeast,
    max: mcpLimits.outputCharsMost,
  });
  const squash = new Squash(client.forSdk);
  return {
    squash,
    sandbox,
    create: create.request,
    // `run_code` needs the interpreter.
    layers: () => interpreterLayers(squash),
    anySandbox: flags.isSet('any-sandbox'),
    keep: flags.isSet('keep'),
    readOnly: flags.isSet('read-only'),
    outputChars: chars ?? mcpLimits.outputCharsDefault,
  };
}

/** `/v1` parses it; what is wrong in it the first call is told. */
function createOf(flags: Flags): {
  readonly request: McpOptions['create'];
  readonly layers?: readonly string[];
} {
  const { allow_net: allow, policy, ...common } = readCommon(flags);
  if (allow !== undefined && policy !== undefined)
    throw usageFailure('--allow-net and --policy exclude each other');
  const layers = flags.list('layers').flatMap((list) => list.split(','));
  const mounts = mountsOf(flags);
  const request = {
    ...common,
    policy: policy ?? policyFor(allow as readonly string[] | undefined),
    ...(layers.length > 0 && { from: { layers } }),
    ...(mounts.length > 0 && { mounts }),
  } as McpOptions['create'];
  return { request, ...(layers.length > 0 && { layers }) };
}

/** `*` allows everything public: then there is nothing to ask for. */
function policyFor(allow: readonly string[] = allowedDefault): unknown {
  return allow.includes('*') ? { allow } : { allow, ask: ['*'] };
}

interface Place {
  readonly host: string;
  readonly port: number;
}

function placeOf(text: string): Place {
  const [, host = '127.0.0.1', digits = ''] = /^(?:(.+):)?(\d{1,5})$/.exec(text) ?? [];
  const port = Number(digits);
  if (digits === '' || port > 65_535)
    throw usageFailure(`--http: "${text}" is no port and no address with one`);
  return { host: host.replace(/^\[(.*)\]$/, '$1'), port };
}

/** The token comes from the environment, which ps does not show, or is made for this one service. */
async function serveUntil(signal: AbortSignal, options: McpOptions, place: Place): Promise<void> {
  const given = process.env['SQUASH_MCP_TOKEN'];
  const token = given ? given : randomBytes(24).toString('base64url');
  await using service = await serveHttp(options, { ...place, token });
  printNote(`squash: serving on ${service.url}${given ? '' : ` with the token ${token}`}`);
  if (!signal.aborted) await once(signal, 'abort');
}

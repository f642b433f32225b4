/**
 * One request to a token endpoint: a refresh token in, an access token and perhaps another refresh token out (RFC 6749, 6).
 *
 * What a newcomer would get wrong: this is the operator's own endpoint, so no sandbox's policy is asked; but its answer is a
 * server's word all the same. Nothing of it is told to anybody but what the RFC names: it may repeat the token that it was sent.
 */
import { type ClientRequest, request as requestPlain } from 'node:http';
import { request as requestTls } from 'node:https';
import { Failure } from '@squash/base/failure';
import { safeParse } from '@squash/contract/safe-parse';
import { type OAuth, valueSchema } from '@squash/contract/secrets';
import { z } from 'zod';
import type { UpstreamRoots } from '../intercept/upstream-socket.ts';

/** From the first byte out to the last one in. */
const requestMs = 10_000;
/** Tokens have some kilobytes. */
const answerBytesMax = 65_536;
/** A year: longer ones are some server's joke. */
const expiresInMaxS = 31_622_400;

export interface Tokens {
  readonly accessToken: string;
  /** Set where the one that was sent is no good any more. */
  readonly refreshToken: string | undefined;
  readonly expiresInS: number | undefined;
}

/** Why a credential has no token: `invalid_grant`, `timeout`, `ECONNREFUSED`, `status_503` … Never a part of an answer. */
export class CredentialFailed extends Failure {
  constructor(code: string, options?: { readonly cause?: unknown }) {
    super(code, `the token can not be refreshed: ${code}`, options);
    this.name = 'CredentialFailed';
  }
}

const answerSchema = z.object({
  access_token: valueSchema,
  refresh_token: valueSchema.optional(),
  expires_in: z.union([z.number(), z.string().regex(/^\d{1,10}$/)]).optional(),
});

/** RFC 6749, 5.2. */
const errorSchema = z.object({
  error: z.enum([
    'invalid_request',
    'invalid_client',
    'invalid_grant',
    'unauthorized_client',
    'unsupported_grant_type',
    'invalid_scope',
  ]),
});

/** @throws CredentialFailed */
export async function requestTokens(
  oauth: OAuth,
  refreshToken: string,
  roots: UpstreamRoots,
): Promise<Tokens> {
  const { status, text } = await exchange(oauth, refreshToken, roots);
  const json = parsed(text);
  if (status !== 200) {
    throw new CredentialFailed(safeParse(errorSchema, json).data?.error ?? `status_${status}`);
  }
  const { data } = safeParse(answerSchema, json);
  if (data === undefined) throw new CredentialFailed('bad_answer');
  const expiresInS = data.expires_in === undefined ? undefined : Number(data.expires_in);
  if (expiresInS !== undefined && !(expiresInS > 0)) throw new CredentialFailed('bad_answer');
  return {
    accessToken: data.access_token,
    refreshToken: data.refresh_token,
    expiresInS: expiresInS === undefined ? undefined : Math.min(expiresInS, expiresInMaxS),
  };
}

/** Redirects are not followed: a token goes where the operator has written. */
async function exchange(
  oauth: OAuth,
  refreshToken: string,
  roots: UpstreamRoots,
): Promise<{ readonly status: number; readonly text: string }> {
  const fields = {
    grant_type: 'refresh_token',
    refresh_token: refreshToken,
    client_id: oauth.client_id,
    ...(oauth.client_secret !== undefined && { client_secret: oauth.client_secret }),
  };
  const isJson = oauth.body === 'json';
  const body = isJson ? JSON.stringify(fields) : new URLSearchParams(fields).toString();
  const url = new URL(oauth.token_url);
  const headers = {
    'content-type': isJson ? 'application/json' : 'application/x-www-form-urlencoded',
    'content-length': Buffer.byteLength(body),
    accept: 'application/json',
  };
  const options = { method: 'POST', headers, agent: false, signal: AbortSignal.timeout(requestMs) };
  // As servers of sandboxes' requests are verified; Node's types do not know that it is handed on.
  const overTls = (): object => ({ ...options, secureContext: roots() });
  try {
    const request = url.protocol === 'https:' ? requestTls(url, overTls()) : requestPlain(url, options);
    return await answerOf(request, body);
  } catch (error) {
    if (error instanceof CredentialFailed) throw error;
    const { name, code } = error as NodeJS.ErrnoException;
    throw new CredentialFailed(
      name === 'AbortError' || name === 'TimeoutError' ? 'timeout' : (code ?? 'failed'),
      {
        cause: error,
      },
    );
  }
}

async function answerOf(
  request: ClientRequest,
  body: string,
): Promise<{ readonly status: number; readonly text: string }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; text: string }>();
  request.on('error', reject).on('response', (response) => {
    const pieces: Buffer[] = [];
    let left = answerBytesMax;
    response
      .on('data', (piece: Buffer) => {
        left -= piece.length;
        if (left < 0) response.destroy(new CredentialFailed('bad_answer'));
        else pieces.push(piece);
      })
      .on('error', reject)
      .on('end', () => resolve({ status: response.statusCode ?? 0, text: Buffer.concat(pieces).toString() }));
  });
  request.end(body);
  return await promise;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // A page of some proxy: its status says what is to be said.
    return undefined;
  }
}

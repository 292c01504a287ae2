// Sends one event to the gateway and reads its answer, over mutual TLS and connections that are kept.
//
// What it does not do: try again. It says what the answer allows; the sender decides.
import { Agent, request as httpsRequest, type RequestOptions } from 'node:https';
import type { IncomingMessage } from 'node:http';

/** PEM texts. `ca` is undefined for the authorities that node itself trusts. */
export interface ClientIdentity {
  readonly cert: string | Buffer;
  readonly key: string | Buffer;
  readonly ca: string | Buffer | undefined;
  readonly token: string | undefined;
}

export interface GatewayClientOptions {
  /** `https://host:port`; events go to `/events` below it. */
  readonly url: URL;
  readonly identity: ClientIdentity;
  readonly connectionsMax: number;
  readonly timeoutMs: number;
}

/**
 * What became of one try.
 * - `accepted`: the gateway has the event; `duplicate` when it had it before, `differs` when it had it with another body.
 * - `refused`: an answer that does not allow another try.
 * - `retry`: the body says `retryable: true`, or there was no answer at all. The id makes another try safe.
 * - `untrusted`: the server's certificate is not accepted, so nothing was sent and no other try can help.
 */
export type Try =
  | { readonly kind: 'accepted'; readonly duplicate: boolean; readonly differs: boolean }
  | { readonly kind: 'untrusted'; readonly reason: string }
  | { readonly kind: 'refused'; readonly code: string; readonly status: number; readonly answer: unknown }
  | {
      readonly kind: 'retry';
      readonly code: string;
      readonly status: number;
      readonly answer: unknown;
      readonly afterMs: number;
    };

/** Answers are small; more than this is no answer of a gateway. */
const ANSWER_BYTES_MAX = 1 << 20;

/** The code of a try that got no answer. */
export const NO_ANSWER = 'NO_ANSWER';

/** What node says of a server's certificate that it does not accept (node:tls, "X509 certificate error codes"). */
const TRUST_ERRORS: ReadonlySet<string> = new Set([
  'CERT_CHAIN_TOO_LONG',
  'CERT_HAS_EXPIRED',
  'CERT_NOT_YET_VALID',
  'CERT_REJECTED',
  'CERT_REVOKED',
  'CERT_SIGNATURE_FAILURE',
  'CERT_UNTRUSTED',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'ERR_TLS_CERT_ALTNAME_INVALID',
  'HOSTNAME_MISMATCH',
  'INVALID_CA',
  'INVALID_PURPOSE',
  'PATH_LENGTH_EXCEEDED',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
]);

export class GatewayClient {
  readonly #options: RequestOptions;
  readonly #agent: Agent;

  constructor({ url, identity, connectionsMax, timeoutMs }: GatewayClientOptions) {
    this.#agent = new Agent({
      keepAlive: true,
      maxSockets: connectionsMax,
      cert: identity.cert,
      key: identity.key,
      ...(identity.ca === undefined ? {} : { ca: identity.ca }),
    });
    this.#options = {
      agent: this.#agent,
      method: 'POST',
      host: url.hostname.replace(/^\[|\]$/g, ''),
      port: url.port === '' ? 443 : Number(url.port),
      path: `${url.pathname.replace(/\/$/, '')}/events`,
      timeout: timeoutMs,
      headers: {
        'Content-Type': 'application/json',
        ...(identity.token === undefined ? {} : { Authorization: `Bearer ${identity.token}` }),
      },
    };
  }

  /** Never rejects. */
  send(body: Buffer): Promise<Try> {
    return new Promise((resolve) => {
      const lost = (cause: NodeJS.ErrnoException): void => {
        const error = cause.message || String(cause.code);
        if (TRUST_ERRORS.has(cause.code ?? '')) resolve({ kind: 'untrusted', reason: `${error} (${cause.code})` });
        else resolve({ kind: 'retry', code: NO_ANSWER, status: 0, answer: { error }, afterMs: 0 });
      };
      const outgoing = httpsRequest(this.#options, (response) => {
        readAll(response).then((text) => resolve(tryOf(response, text)), lost);
      });
      outgoing.setHeader('Content-Length', body.length);
      outgoing.on('error', lost);
      outgoing.on('timeout', () => outgoing.destroy(new Error('no answer in time')));
      outgoing.end(body);
    });
  }

  close(): void {
    this.#agent.destroy();
  }
}

async function readAll(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > ANSWER_BYTES_MAX) throw new Error('the answer is too long');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** Only the body decides whether to try again (openapi/rules.md, 5): a status without such a body does not. */
function tryOf(response: IncomingMessage, text: string): Try {
  const status = response.statusCode ?? 0;
  const answer = parsed(text);
  const members: Record<string, unknown> = typeof answer === 'object' && answer !== null ? { ...answer } : {};
  if (status === 202 && members['status'] === 'accepted')
    return { kind: 'accepted', duplicate: members['duplicate'] === true, differs: members['differs'] === true };
  const code = typeof members['code'] === 'string' ? members['code'] : `HTTP_${status}`;
  if (members['retryable'] !== true) return { kind: 'refused', code, status, answer };
  return { kind: 'retry', code, status, answer, afterMs: retryAfterMs(response.headers['retry-after']) };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Seconds or a date (RFC 9110, section 10.2.3); 0 where there is none. */
function retryAfterMs(value: string | undefined): number {
  if (value === undefined) return 0;
  if (/^\d{1,6}$/.test(value)) return Number(value) * 1000;
  const date = Date.parse(value);
  return Number.isNaN(date) ? 0 : Math.max(0, date - Date.now());
}

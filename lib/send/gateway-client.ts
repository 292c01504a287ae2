// Sends one event to the gateway and reads its answer, over mutual TLS and connections that are kept.
//
// Limits: a try ends after `timeoutMs`, whatever the server sends until then; an answer has at most ANSWER_BYTES_MAX,
// its header fields what node allows (16 KiB), and `Retry-After` counts up to RETRY_AFTER_MAX_MS. What is not an answer
// of a gateway (another content type, no code, a 202 for another id, a redirection, a switch of protocols) counts as no
// answer. So a broken server delays an event and loses none.
//
// What it does not do: try again. It says what the answer allows; the sender decides.
import { Agent as HttpAgent, request as httpRequest, type ClientRequest, type IncomingMessage } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest, type RequestOptions } from 'node:https';
import { createSecureContext } from 'node:tls';
import type { Clock } from '../process/clock.ts';

/** PEM texts. `ca` is undefined for the authorities that node itself trusts. A plain URL needs none of them. */
export interface ClientIdentity {
  readonly cert: string | Buffer | undefined;
  readonly key: string | Buffer | undefined;
  readonly ca: string | Buffer | undefined;
  readonly token: string | undefined;
}

export interface GatewayClientOptions {
  readonly clock: Clock;
  /** What `gatewayUrl` gave. */
  readonly url: URL;
  readonly identity: ClientIdentity;
  readonly connectionsMax: number;
  /** For one try in all, from the connection to the last byte of the answer. */
  readonly timeoutMs: number;
}

/**
 * The result of one try. `requestId`: the answer's X-Request-Id, by which the gateway's log knows the request.
 * - `accepted`: the gateway has the event; `duplicate` when it had it before, `differs` when it had it with another
 * body.
 * - `refused`: an answer that does not allow another try.
 * - `retry`: the body says `retryable: true`, or there was no answer of a gateway (code NO_ANSWER; `status` is 0 where
 *   there was none at all). The id makes another try safe.
 * - `untrusted`: the server's certificate is not accepted, so nothing was sent and no other try can help.
 */
export type Try =
  | {
      readonly kind: 'accepted';
      readonly duplicate: boolean;
      readonly differs: boolean;
      readonly requestId: string | undefined;
    }
  | { readonly kind: 'untrusted'; readonly reason: string }
  | ({ readonly kind: 'refused' } & NotAccepted)
  | ({ readonly kind: 'retry'; readonly afterMs: number } & NotAccepted);

interface NotAccepted {
  readonly code: string;
  readonly status: number;
  readonly answer: unknown;
  readonly requestId: string | undefined;
}

/** More than a gateway answers. */
const ANSWER_BYTES_MAX = 65_536;

/** Of what is not an answer of a gateway, so much is kept. */
const STRANGE_ANSWER_LENGTH_MAX = 1_000;

/** Longer than a gateway asks for: more would stop a sender for a wrong number. */
const RETRY_AFTER_MAX_MS = 300_000;

/** The code of a try that got no answer of a gateway. */
export const NO_ANSWER = 'NO_ANSWER';

/** As the API file writes codes. So a code of any sender can be shown. */
const CODE = /^[A-Z][A-Z0-9_]{0,63}$/;

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

/**
 * The URL of a gateway, `https://host:port`; events are sent to `/events` below it. Plain `http` only to this machine,
 * for tests. Throws a TypeError that says what is wrong.
 */
export function gatewayUrl(value: string | URL): URL {
  if (!URL.canParse(String(value))) throw new TypeError(`${String(value)}: expected an https URL`);
  const url = new URL(value);
  const shown = `${url.protocol}//${url.host}${url.pathname}`;
  const local = /^(localhost|127(\.\d+){3}|\[::1\])$/.test(url.hostname);
  if (url.protocol !== 'https:' && !(url.protocol === 'http:' && local))
    throw new TypeError(`${shown}: expected an https URL`);
  if (url.username !== '' || url.password !== '') throw new TypeError(`${shown}: expected a URL without a user`);
  if (url.search !== '' || url.hash !== '')
    throw new TypeError(`${shown}: expected a URL without a query or a fragment`);
  if (/\/events\/?$/.test(url.pathname))
    throw new TypeError(`${shown}: expected a URL without /events at its end, which is added`);
  return url;
}

export class GatewayClient {
  readonly #request: typeof httpRequest;
  readonly #options: RequestOptions;
  readonly #agent: HttpAgent;
  readonly #timeoutMs: number;
  readonly #clock: Clock;

  /** Throws what node says of a certificate and a key that cannot be used. */
  constructor({ clock, url, identity, connectionsMax, timeoutMs }: GatewayClientOptions) {
    this.#clock = clock;
    const { token, ...tls } = identity;
    const kept = { keepAlive: true, maxSockets: connectionsMax };
    const given = Object.fromEntries(Object.entries(tls).filter(([, value]) => value !== undefined));
    const secure = url.protocol === 'https:';
    if (secure) createSecureContext(given);
    this.#agent = secure ? new HttpsAgent({ ...kept, ...given }) : new HttpAgent(kept);
    this.#request = secure ? httpsRequest : httpRequest;
    this.#timeoutMs = timeoutMs;
    this.#options = {
      agent: this.#agent,
      method: 'POST',
      host: url.hostname.replace(/^\[|\]$/g, ''),
      port: url.port === '' ? (secure ? 443 : 80) : Number(url.port),
      path: `${url.pathname.replace(/\/$/, '')}/events`,
      headers: {
        'Content-Type': 'application/json',
        ...(token === undefined ? {} : { Authorization: `Bearer ${token}` }),
      },
    };
  }

  /** Never rejects. */
  send(body: Buffer): Promise<Try> {
    return new Promise((resolve) => {
      const outgoing = this.#request(this.#options);
      const lost = (cause: Error): void => settle(lostTry(cause));
      const timer = this.#clock.after(this.#timeoutMs, () => {
        lost(new Error(`no answer within ${this.#timeoutMs} ms`));
      });
      const settle = (result: Try, reusable = false): void => {
        timer.close();
        if (!reusable) outgoing.destroy();
        resolve(result);
      };
      let answered = false;
      // Once the answer has begun, only reading it can fail: the server may well stop reading the body.
      outgoing.on('error', (cause) => (answered ? undefined : lost(cause)));
      outgoing.on('upgrade', (_response, socket) => {
        socket.destroy();
        lost(new Error('the server switched protocols (status 101)'));
      });
      outgoing.on('response', (response) => {
        answered = true;
        readAll(response).then(
          (text) => settle(tryOf(response, text, body, this.#clock.epochMs()), bodySent(outgoing)),
          lost,
        );
      });
      outgoing.setHeader('Content-Length', body.length);
      outgoing.end(body);
    });
  }

  close(): void {
    this.#agent.destroy();
  }
}

/** An answer may come before the body was sent; nothing else can be sent on such a connection. */
const bodySent = (outgoing: ClientRequest): boolean => outgoing.writableFinished;

function lostTry({ message, code }: NodeJS.ErrnoException): Try {
  const error = message || String(code);
  if (TRUST_ERRORS.has(code ?? '')) return { kind: 'untrusted', reason: `${error} (${code})` };
  return noAnswer(0, { error }, undefined);
}

const noAnswer = (status: number, answer: object, requestId: string | undefined): Try => ({
  kind: 'retry',
  code: NO_ANSWER,
  status,
  answer,
  requestId,
  afterMs: 0,
});

async function readAll(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > ANSWER_BYTES_MAX) throw new Error(`the answer is longer than ${ANSWER_BYTES_MAX} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** Only the body decides whether to try again (openapi/rules.md, 5). */
function tryOf({ statusCode: status = 0, headers }: IncomingMessage, text: string, body: Buffer, nowMs: number): Try {
  const requestId = /^[\x21-\x7e]{1,128}$/.exec(String(headers['x-request-id'] ?? ''))?.[0];
  const type = headers['content-type'] ?? '';
  const answer = /^application\/(problem\+)?json *(;|$)/i.test(type) ? objectOf(text) : undefined;
  const strange = (reason: string): Try =>
    noAnswer(status, { error: reason, body: text.slice(0, STRANGE_ANSWER_LENGTH_MAX) }, requestId);
  if (status === 202 && answer?.['status'] === 'accepted') {
    if (typeof answer['id'] !== 'string' || answer['id'] !== objectOf(body.toString())?.['id'])
      return strange('the answer is for another id');
    return {
      kind: 'accepted',
      duplicate: answer['duplicate'] === true,
      differs: answer['differs'] === true,
      requestId,
    };
  }
  const { code, retryable } = answer ?? {};
  if (answer === undefined || typeof code !== 'string' || !CODE.test(code) || typeof retryable !== 'boolean')
    return strange(`status ${status} without an answer of a gateway`);
  if (!retryable) return { kind: 'refused', code, status, answer, requestId };
  return { kind: 'retry', code, status, answer, requestId, afterMs: retryAfterMs(headers['retry-after'], nowMs) };
}

/** The members of the JSON object that the text is; undefined for anything else. */
function objectOf(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? { ...value } : undefined;
  } catch {
    return undefined;
  }
}

/** Seconds or a date (RFC 9110, section 10.2.3); 0 where there is none. */
function retryAfterMs(value: string | undefined, nowMs: number): number {
  if (value === undefined) return 0;
  const ms = /^\d+$/.test(value) ? Number(value) * 1000 : Date.parse(value) - nowMs;
  return Number.isNaN(ms) ? 0 : Math.min(Math.max(0, ms), RETRY_AFTER_MAX_MS);
}

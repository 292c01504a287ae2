// The canonical workload: keep-alive mutual TLS, one event of about 300 bytes for each request, every id new.
import { randomBytes } from 'node:crypto';
import type { LoadOptions } from './options.ts';

/** Bytes of a canonical event's body, within one or two. */
export const CANONICAL_BODY_BYTES = 300;
export const CANONICAL_CONNECTIONS = 50;

/** Makes ids that no other run makes: 36 characters, as long as a UUID, counting up behind a random prefix. */
export function idSource(): () => string {
  const prefix = `${randomBytes(4).toString('hex')}-${randomBytes(2).toString('hex')}-4000-8000-`;
  let count = 0;
  return () => {
    count += 1;
    return prefix + String(count).padStart(12, '0');
  };
}

/** An event's body, padded to `bytes` (at least 120). ASCII only, so characters are bytes. */
export function eventBody(id: string, bytes: number): string {
  const head = `{"id":"${id}","type":"bench.order.created","data":{"n":1,"tags":["a","b"],"note":"`;
  return `${head}${'x'.repeat(Math.max(0, bytes - head.length - 3))}"}}`;
}

/** A whole HTTP/1.1 request for `POST /events`. */
export function postRequest(body: string): string {
  return (
    'POST /events HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nX-Request-Id: bench\r\n' +
    `Content-Length: ${body.length}\r\n\r\n${body}`
  );
}

/** Bodies with new ids. Only the id differs, so one costs a join and no more. */
export function bodySource({ bodyBytes }: Pick<LoadOptions, 'bodyBytes'>): () => string {
  const mark = '@'.repeat(36);
  const [before = '', after = ''] = eventBody(mark, bodyBytes).split(mark);
  const nextId = idSource();
  return () => before + nextId() + after;
}

/** Whole requests as the options ask for them, one after the other. */
export function requestSource(options: Pick<LoadOptions, 'bodyBytes'>): () => string {
  const nextBody = bodySource(options);
  const head = postRequest(nextBody()).split('\r\n\r\n', 1)[0] ?? '';
  return () => `${head}\r\n\r\n${nextBody()}`;
}

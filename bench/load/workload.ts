// The canonical workload: mutual TLS, keep-alive connections, and one event of about 300 bytes with a new id per
// request.
import { randomBytes } from 'node:crypto';
import type { LoadOptions } from './options.ts';

export const CANONICAL_BODY_BYTES = 300;
export const CANONICAL_CONNECTIONS = 50;

/** Returns unique ids of 36 characters: a random prefix and a count. */
export function idSource(): () => string {
  const prefix = `${randomBytes(4).toString('hex')}-${randomBytes(2).toString('hex')}-4000-8000-`;
  let count = 0;
  return () => {
    count += 1;
    return prefix + String(count).padStart(12, '0');
  };
}

/** Returns an ASCII-only event padded to `bytes`, which should be at least 120. */
export function eventBody(id: string, bytes: number): string {
  const head = `{"id":"${id}","type":"bench.order.created","data":{"n":1,"tags":["a","b"],"note":"`;
  return `${head}${'x'.repeat(Math.max(0, bytes - head.length - 3))}"}}`;
}

function postRequest(body: string): string {
  return (
    'POST /events HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nX-Request-Id: bench\r\n' +
    `Content-Length: ${body.length}\r\n\r\n${body}`
  );
}

/** Bodies differ only in the id, so building a body costs one concatenation. */
export function bodySource({ bodyBytes }: Pick<LoadOptions, 'bodyBytes'>): () => string {
  const mark = '@'.repeat(36);
  const [before = '', after = ''] = eventBody(mark, bodyBytes).split(mark);
  const nextId = idSource();
  return () => before + nextId() + after;
}

export function requestSource(options: Pick<LoadOptions, 'bodyBytes'>): () => string {
  const nextBody = bodySource(options);
  const head = postRequest(nextBody()).split('\r\n\r\n', 1)[0] ?? '';
  return () => `${head}\r\n\r\n${nextBody()}`;
}

// HTTP/1.1 as text, for requests that a client library would not send.
import { WITHIN_MS } from './deadline.ts';
import type { RawConnection } from './client.ts';
import { eventually } from './scope.ts';

/** Returns a request, and adds Host and Content-Length if they are missing. */
export function requestText(line: string, headers: readonly string[] = [], body = ''): string {
  const has = (name: string): boolean => headers.some((header) => header.toLowerCase().startsWith(`${name}:`));
  const all = [...(has('host') ? [] : ['Host: gateway']), ...headers];
  if (body !== '' && !has('content-length') && !has('transfer-encoding'))
    all.push(`Content-Length: ${Buffer.byteLength(body)}`);
  return `${line} HTTP/1.1\r\n${all.map((header) => `${header}\r\n`).join('')}\r\n${body}`;
}

export const postText = (body: string, headers: readonly string[] = []): string =>
  requestText('POST /events', ['Content-Type: application/json', ...headers], body);

export interface WireReply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/**
 * Returns all complete answers, including 100 (Continue). `isToHead` tells which answers, not counting 100, belong to
 * HEAD requests and therefore have no body.
 */
export function repliesIn(received: string, isToHead: (place: number) => boolean = () => false): WireReply[] {
  const replies: WireReply[] = [];
  let place = 0;
  for (let rest = received; ;) {
    const end = rest.indexOf('\r\n\r\n');
    if (end === -1) return replies;
    const [first = '', ...lines] = rest.slice(0, end).split('\r\n');
    const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(first)?.[1]);
    if (Number.isNaN(status)) throw new Error(`this is no answer: ${JSON.stringify(rest.slice(0, 200))}`);
    const headers: Record<string, string> = {};
    for (const line of lines) {
      const at = line.indexOf(': ');
      headers[line.slice(0, at).toLowerCase()] = line.slice(at + 2);
    }
    const length = status === 100 || isToHead(place) ? 0 : Number(headers['content-length'] ?? 0);
    if (status !== 100) place += 1;
    if (rest.length < end + 4 + length) return replies;
    replies.push({ status, headers, body: rest.slice(end + 4, end + 4 + length) });
    rest = rest.slice(end + 4 + length);
  }
}

/** Waits for `count` answers. Fails early if the connection closes. */
export async function replies(connection: RawConnection, count: number, deadlineMs = WITHIN_MS): Promise<WireReply[]> {
  await eventually(
    `${count} answers, not just ${JSON.stringify(connection.received.slice(0, 500))}`,
    () => {
      return connection.closed || repliesIn(connection.received).length >= count;
    },
    deadlineMs,
  );
  const found = repliesIn(connection.received);
  if (found.length < count)
    throw new Error(`closed (${String(connection.error)}) after ${JSON.stringify(connection.received)}`);
  return found;
}

export async function askRaw(connection: RawConnection, text: string): Promise<WireReply> {
  const before = repliesIn(connection.received).length;
  connection.write(text);
  const all = await replies(connection, before + 1);
  return all[before] as WireReply;
}

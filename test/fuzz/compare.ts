// Compares the gateway's answers with the requests that node:http reads from the same bytes.
import { RESPONSES } from '../support/api-file.ts';
import { repliesIn, type WireReply } from '../support/wire.ts';
import type { NodeReading } from './node-reading.ts';

const DOCUMENTED = new Set(
  RESPONSES.flatMap(({ status, variants }) =>
    variants.length === 0 ? [`${status}`] : variants.map((variant) => `${status} ${variant}`),
  ),
);

const END = 'HTTP/1.1 200 OK\r\nend: here\r\n\r\n';
const STATUSES = new Set(RESPONSES.map(({ status }) => status));

/**
 * Describes what is wrong with the answers, or returns `undefined`. `received` is all that the gateway sent before
 * the connection closed.
 */
export function faultIn(received: string, reading: NodeReading): string | undefined {
  const isToHead = (place: number): boolean => reading[place]?.method === 'HEAD';
  let replies: WireReply[];
  try {
    // If the last answer is incomplete, END is parsed as a part of that answer.
    replies = repliesIn(received + END, isToHead).filter(({ status }) => status !== 100);
    if (replies.pop()?.headers['end'] === undefined) return 'the last answer is not whole';
  } catch (cause) {
    return String(cause);
  }
  for (const [at, reply] of replies.entries()) {
    const fault = undocumented(reply, isToHead(at)) ?? misread(reply, at, reading);
    if (fault !== undefined) return `answer ${at + 1}: ${fault}`;
  }
  const last = replies.at(-1);
  const whole = reading.filter(({ body }) => body !== undefined).length;
  const closes = last?.headers['connection'] === 'close';
  if (replies.length < whole && !closes) return `${replies.length} answers to ${whole} requests, and none that closes`;
  if (replies.length > reading.length + 1) return `${replies.length} answers to ${reading.length} requests`;
  return undefined;
}

function undocumented({ status, body, headers }: WireReply, isToHead: boolean): string | undefined {
  if (headers['x-request-id'] === undefined) return 'no X-Request-Id';
  if (DOCUMENTED.has(`${status}`)) return undefined;
  if (isToHead) return STATUSES.has(status) ? undefined : `${status} is not documented`;
  const value = JSON.parse(body) as { code?: string; status?: string };
  const name = `${status} ${value.code ?? value.status}`;
  return DOCUMENTED.has(name) ? undefined : `${name} is not documented`;
}

/** Describes why the answer does not match the request at the same position, or returns `undefined` if it does. */
function misread(reply: WireReply, at: number, requests: NodeReading): string | undefined {
  const request = requests[at];
  if (request === undefined) return reply.status >= 400 ? undefined : 'node read no such request';
  const echoed = reply.headers['x-request-id'];
  const given = request.requestId;
  const echoes = given !== undefined && /^[\t\x20-\x7e\x80-\xff]+$/.test(given);
  // A gateway that refuses to read a head does not echo the head's request id.
  const refused = reply.status >= 400 && reply.headers['connection'] === 'close';
  if (echoes && echoed !== given && !refused) return `for ${echoed}, but node read ${given}`;
  if (reply.status !== 202) return undefined;
  if (request.body === undefined) return 'accepted, but node read no whole body';
  const { id } = JSON.parse(reply.body) as { id: string };
  const { id: read } = JSON.parse(Buffer.from(request.body, 'latin1').toString()) as { id: string };
  return id === read ? undefined : `accepted ${id}, but node read ${read}`;
}

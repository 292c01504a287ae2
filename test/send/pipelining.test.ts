import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { createServer, type TLSSocket } from 'node:tls';
import { sendEvents, type SendEventsOptions, type SendResult } from '../../lib/send/client.ts';
import { WITHIN_MS } from '../support/deadline.ts';
import { Pki } from '../support/pki.ts';
import { atEnd } from '../support/scope.ts';
import { listening } from './listening.ts';

interface Seen {
  readonly id: string;
  readonly requestId: string;
  readonly socket: TLSSocket;
}
type Outcome = SendResult<{ id: string; type: string }>;

const events = (count: number, data: string) =>
  Array.from({ length: count }, (_, at) => ({ id: `e-${at}`, type: 't', data }));
const http = (status: number, body: object, more = ''): string => {
  const text = JSON.stringify(body);
  return `HTTP/1.1 ${status} X\r\nContent-Type: application/json\r\n${more}Content-Length: ${text.length}\r\n\r\n${text}`;
};
const accepted = ({ id }: Seen, more = ''): string => http(202, { id, status: 'accepted' }, more);

let pki: Pki;
let identity: Pick<SendEventsOptions, 'cert' | 'key' | 'ca'>;
before(async () => {
  pki = await Pki.create();
  const { cert, key } = await pki.producer('pipelining');
  identity = { cert, key, ca: pki.authority.certificate };
});

async function serve(answer: (seen: Seen) => void) {
  const found = { url: '', seen: [] as Seen[], connections: 0, requestsInRead: 0 };
  const server = createServer({ cert: pki.server.certificate, key: pki.server.key }, (socket) => {
    found.connections += 1;
    let text = '';
    socket.on('error', () => undefined);
    atEnd(() => void socket.destroy());
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1');
      let inRead = 0;
      // `answer` may close the connection or stop reading from it.
      while (!socket.writableEnded && socket.listenerCount('data') > 0) {
        const [whole, , requestId = '', length = '0'] =
          /^(POST [^]*?X-Request-Id: (\S+)\r\nContent-Length: (\d+)\r\n\r\n)/.exec(text) ?? [];
        const end = (whole?.length ?? 0) + Number(length);
        if (whole === undefined || text.length < end) break;
        const { id } = JSON.parse(text.slice(whole.length, end)) as { id: string };
        text = text.slice(end);
        inRead += 1;
        found.requestsInRead = Math.max(found.requestsInRead, inRead);
        const one = { id, requestId, socket };
        found.seen.push(one);
        answer(one);
      }
    });
  });
  found.url = `https://127.0.0.1:${await listening(server)}`;
  return found;
}

async function send(url: string, count: number, options: Partial<SendEventsOptions>, data = ''): Promise<Outcome[]> {
  const results: Outcome[] = [];
  const all = { url, ...identity, timeoutMs: WITHIN_MS, ...options };
  for await (const result of sendEvents(events(count, data), all)) results.push(result);
  return results;
}

function triesOf(results: readonly Outcome[]): Map<string, number> {
  assert.deepEqual(
    results.filter(({ kind }) => kind !== 'accepted'),
    [],
  );
  return new Map(results.map(({ event, tries }) => [event.id, tries]));
}

describe('a sender with pipelining', () => {
  it('has connections x pipelining events in flight, limited by concurrency, and one write for a turn', async () => {
    for (const [options, inFlight, connections] of [
      [{}, 64, 4],
      [{ connections: 2, pipelining: 8 }, 16, 2],
      [{ concurrency: 5 }, 5, 4],
      [{ concurrency: 12, pipelining: 1 }, 12, 12],
      [{ connections: 1, pipelining: 32 }, 32, 1],
    ] as const) {
      const waiting: Seen[] = [];
      const server = await serve((seen) => {
        waiting.push(seen);
        if (waiting.length === inFlight) for (const one of waiting.splice(0)) one.socket.write(accepted(one));
      });
      const results = await send(server.url, inFlight * 3, options);
      assert.equal(triesOf(results).size, inFlight * 3);
      assert.equal(server.connections, connections, JSON.stringify(options));
      assert.equal(server.requestsInRead, Math.ceil(inFlight / connections), JSON.stringify(options));
    }
  });

  it('fails one event of a lost connection, and sends those after it again in the same try', async () => {
    let cut = 0;
    const server = await serve((seen) => {
      if (seen.id !== 'e-3' || (cut += 1) > 1) return void seen.socket.write(accepted(seen));
      seen.socket.write(accepted(seen).slice(0, -5));
      seen.socket.end();
    });
    const tries = triesOf(await send(server.url, 16, { connections: 1 }));
    assert.deepEqual(
      [...tries].filter(([, count]) => count > 1),
      [['e-3', 2]],
    );
  });

  for (const [what, first] of [
    ['two lengths', 'HTTP/1.1 202 X\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}'],
    ['an answer for another id', http(202, { id: 'e-9', status: 'accepted' })],
    [
      'an answer for another request',
      http(400, { code: 'INVALID_EVENT', retryable: false }, 'X-Request-Id: another\r\n'),
    ],
  ] as const)
    it(`closes the connection after ${what}, and all events are accepted in the end`, async () => {
      let broken = false;
      const server = await serve((seen) => {
        if (broken) return void seen.socket.write(accepted(seen));
        broken = true;
        seen.socket.write(first);
      });
      const tries = triesOf(await send(server.url, 16, { connections: 1 }));
      assert.deepEqual([tries.get('e-0'), tries.get('e-1')], [2, 1]);
      assert.ok(server.connections >= 2);
    });

  it('accepts an answer with Connection: close, and sends later events on another connection', async () => {
    const server = await serve((seen) => {
      if (seen.id === 'e-2' && !seen.socket.writableEnded)
        return void seen.socket.end(accepted(seen, 'Connection: close\r\n'));
      if (!seen.socket.writableEnded) seen.socket.write(accepted(seen));
    });
    const tries = triesOf(await send(server.url, 16, { connections: 1 }));
    assert.ok([...tries.values()].every((count) => count === 1));
    assert.equal(server.connections, 2);
  });

  it('treats an error without the X-Request-Id of its request as no answer', async () => {
    const server = await serve((seen) => seen.socket.write(http(400, { code: 'INVALID_EVENT', retryable: false })));
    const [result] = await send(server.url, 1, { tries: 1 });
    assert.ok(result?.kind === 'refused' && result.code === 'NO_ANSWER' && result.retryable);
  });

  it('delays events after an unanswered one by at most its time limit', async () => {
    const server = await serve((seen) => {
      // Answers on a connection are in order, so nothing can be answered after an unanswered event.
      if (seen.id === 'e-0') seen.socket.removeAllListeners('data');
      else seen.socket.write(accepted(seen));
    });
    const startMs = performance.now();
    const results = await send(server.url, 16, { connections: 1, timeoutMs: 700, tries: 1 });
    const slow = results.find(({ event }) => event.id === 'e-0');
    assert.ok(slow?.kind === 'refused' && slow.code === 'NO_ANSWER');
    assert.match(JSON.stringify(slow.answer), /no answer within 700 ms/);
    assert.ok([...triesOf(results.filter((result) => result !== slow)).values()].every((count) => count === 1));
    assert.ok(performance.now() - startMs < 700 + WITHIN_MS);
  });

  it('sends one request at a time for a while after a failed connection', async () => {
    let isFirst = true;
    let most = 0;
    const open: Seen[] = [];
    const server = await serve((seen) => {
      if (isFirst) return void (isFirst = !seen.socket.end());
      most = Math.max(most, open.push(seen));
      setImmediate(() => {
        open.splice(open.indexOf(seen), 1);
        seen.socket.write(accepted(seen));
      });
    });
    assert.equal(triesOf(await send(server.url, 30, { connections: 1 })).size, 30);
    assert.equal(most, 1);
  });

  it('keeps the connection if the first of several long events is refused while it writes the others', async () => {
    let isFirst = true;
    const server = await serve((seen) => {
      if (!isFirst) return void seen.socket.write(accepted(seen));
      isFirst = false;
      const more = `X-Request-Id: ${seen.requestId}\r\n`;
      seen.socket.write(http(503, { code: 'QUEUE_OVERLOADED', retryable: true }, more));
    });
    const tries = triesOf(await send(server.url, 16, { connections: 1 }, 'x'.repeat(500_000)));
    assert.deepEqual([tries.get('e-0'), tries.get('e-1')], [2, 1]);
    assert.deepEqual([server.connections, server.seen.length], [1, 17]);
  });

  it('accepts answers in pieces of any length', async () => {
    for (const length of [1, 2, 3, 5, 17, 64, 151]) {
      let text = '';
      const server = await serve((seen) => {
        text += accepted(seen);
        if (seen.id !== 'e-15') return;
        const next = (): void => {
          if (text === '') return;
          seen.socket.write(text.slice(0, length), () => setImmediate(next));
          text = text.slice(length);
        };
        next();
      });
      const tries = triesOf(await send(server.url, 16, { connections: 1 }));
      assert.ok([...tries.values()].every((count) => count === 1));
      assert.equal(server.connections, 1);
    }
  });
});

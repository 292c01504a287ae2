// What the hand-over relies on in node:http, each by itself: a new version of node that changes one of them fails here.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { HandOver } from '../../lib/http/node/hand-over.ts';
import type { HttpRequest, ProtocolFault } from '../../lib/http/request.ts';
import { NodeSide } from '../../lib/http/node/side.ts';
import type { ConnectionState, Side, Wire } from '../../lib/http/side.ts';
import type { Clock } from '../../lib/process/clock.ts';
import { eventually } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const GET = 'GET / HTTP/1.1\r\nHost: g\r\n\r\n';

/** How often something has asked for the end of a turn. */
class CountingClock extends VirtualClock {
  turns = 0;

  override turnEnd(run: () => void): void {
    this.turns += 1;
    super.turnEnd(run);
  }
}

/** The connection's half, in memory: it keeps what node:http does to it. */
class Recorder implements Wire {
  readonly keepAlive = '';
  readonly clock = SYSTEM.clock;
  state: ConnectionState = 'node';
  writable = true;
  written = '';
  readonly requests: HttpRequest[] = [];
  readonly events: string[] = [];
  readonly #onRequest: (request: HttpRequest) => void;
  side: Side | undefined;

  constructor(onRequest: (request: HttpRequest) => void = () => undefined) {
    this.#onRequest = onRequest;
  }

  wake(): void {
    setImmediate(() => this.side?.flush());
  }

  request(request: HttpRequest): void {
    this.requests.push(request);
    this.#onRequest(request);
  }

  mayReadOn(): boolean {
    return true;
  }

  write(text: string | Buffer, _encoding: BufferEncoding, done?: () => void): void {
    this.written += text.toString();
    done?.();
  }

  pause(): void {
    this.events.push('pause');
  }

  resume(): void {}

  stopReading(): void {
    this.state = 'closing';
    this.side?.stop();
  }

  end(unread: boolean): void {
    this.state = 'closing';
    this.events.push(unread ? 'end, more comes' : 'end');
  }

  sayLast(fault: ProtocolFault): void {
    this.events.push(`last: ${fault}`);
  }

  abort(): void {
    this.events.push('abort');
  }

  prepareHandOver(): void {}
  handOver(): void {}
}

function adopted(
  onRequest?: (request: HttpRequest) => void,
  idleTimeoutMs = 60_000,
  clock: Clock = SYSTEM.clock,
): Recorder & { readonly side: Side } {
  const wire = new Recorder(onRequest);
  wire.side = new HandOver({ headerBytesMax: 16_384, idleTimeoutMs }, clock).adopt(wire, 0);
  return wire as Recorder & { readonly side: Side };
}

const answer = (request: HttpRequest, close = false): void => {
  request.respond('id', { status: 200, contentType: 'text/plain', body: 'x' }, close);
};

const ignored = (): void => undefined;
const readsBody = (request: HttpRequest): void => {
  request.listener = { aborted: ignored, fault: () => false };
  request.body(100, { bodyGrows: ignored, bodyRead: ignored });
};

describe('node:http behind a stream of our own', () => {
  it('reads requests from it and writes their answers to it, in order', async () => {
    const wire = adopted((request) => answer(request));
    wire.side.feed(Buffer.from(GET.repeat(3)));
    await eventually('three answers', () => wire.written.match(/HTTP\/1\.1 200 OK/g)?.length === 3);
    assert.equal(wire.side.busy, false);
  });

  it('sets no timer on it: it stays open past the time that its answers tell the client', async () => {
    const wire = adopted((request) => answer(request), 1_000);
    wire.side.feed(Buffer.from(GET));
    await eventually('an answer', () => wire.written.includes('Keep-Alive: timeout=1'));
    await new Promise((resolve) => setTimeout(resolve, 2_500)); // What must not happen has no event to wait for.
    wire.side.feed(Buffer.from(GET));
    await eventually('another', () => wire.requests.length === 2);
    assert.deepEqual(
      wire.events.filter((one) => one !== 'pause'),
      [],
    );
  });

  it('is fed no more requests than a piece holds, while none is answered', async () => {
    const wire = adopted();
    wire.side.feed(Buffer.from(GET.repeat(2_000)));
    await eventually('one is started', () => wire.requests.length > 0);
    for (let turn = 0; turn < 50; turn += 1) await new Promise((resolve) => setImmediate(resolve));
    assert.equal(wire.requests.length, 1, 'one look-up at a time');
    assert.ok(wire.side.requests <= Math.ceil(1_024 / GET.length), `${wire.side.requests} requests were read`);
    assert.ok(wire.events.includes('pause'));
  });

  it('ends it behind an answer that closes, and what was sent behind that is not started', async () => {
    const wire = adopted((request) => answer(request, true));
    wire.side.feed(Buffer.from(GET.repeat(2)));
    await eventually('the end', () => wire.events.includes('end'));
    assert.equal(wire.requests.length, 1);
    assert.match(wire.written, /Connection: close/);
  });

  // Its body goes on in a second piece, which node:http holds back until somebody reads the body.
  const LONG = `POST / HTTP/1.1\r\nHost: g\r\nContent-Length: 300\r\n\r\n${'x'.repeat(300)}`;
  const turns = async (): Promise<void> => {
    for (let turn = 0; turn < 50; turn += 1) await new Promise((resolve) => setImmediate(resolve));
  };

  it('ends behind an answer to a client that waits for 100 (Continue), and what was sent behind that is not started', async () => {
    for (const behind of [LONG, GET, 'garbage\r\n\r\n']) {
      const wire = adopted((request) => (request.head.method === 'GET' ? answer(request) : readsBody(request)));
      wire.side.feed(Buffer.from(GET.replace('Host', 'Expect: 100-continue\r\nHost') + LONG + behind));
      await eventually('the end', () => wire.events.some((one) => one.startsWith('end')));
      await turns();
      assert.deepEqual([wire.requests.length, wire.written.match(/HTTP\/1\.1 /g)?.length], [1, 1], behind.slice(0, 40));
      assert.deepEqual(
        wire.events.filter((one) => one.startsWith('last')),
        [],
      );
    }
  });

  it('starts nothing that it reads behind an answer that closes, with the rest of a body that is thrown away', async () => {
    const wire = adopted();
    wire.side.feed(Buffer.from(LONG + GET + GET));
    await eventually('it is started', () => wire.requests.length === 1);
    await turns();
    const [request] = wire.requests;
    assert.ok(request !== undefined);
    answer(request, true);
    await eventually('the end', () => wire.events.includes('end, more comes'));
    await turns();
    assert.deepEqual([wire.requests.length, wire.written.match(/HTTP\/1\.1 /g)?.length], [1, 1]);
  });

  it('writes no answer of its own: not to a missing Host, many fields, an unknown expectation, CONNECT or garbage', async () => {
    const fields = Array.from({ length: 150 }, (_, at) => `X-${at}: a\r\n`).join('');
    const cases: Readonly<Record<string, number>> = {
      'GET / HTTP/1.1\r\n\r\n': 1,
      [`GET / HTTP/1.1\r\nHost: g\r\n${fields}\r\n`]: 1,
      'GET / HTTP/1.1\r\nHost: g\r\nExpect: more\r\n\r\n': 1,
      'CONNECT g:1 HTTP/1.1\r\nHost: g\r\n\r\n': 0,
      'garbage\r\n\r\n': 0,
      [`GET / HTTP/1.1\r\nHost: g\r\nX: ${'a'.repeat(20_000)}\r\n\r\n`]: 0,
    };
    for (const [text, requests] of Object.entries(cases)) {
      const wire = adopted();
      wire.side.feed(Buffer.from(text));
      await eventually(
        'it is read',
        () => wire.requests.length > 0 || wire.events.some((one) => one.startsWith('last')),
      );
      assert.deepEqual([wire.requests.length, wire.written], [requests, ''], text.slice(0, 60));
    }
  });

  it('ends without an answer where the client ended inside a body and nothing else is owed, and where nothing is owed', async () => {
    const cut = adopted(readsBody);
    cut.side.feed(Buffer.from('POST / HTTP/1.1\r\nHost: g\r\nContent-Length: 10\r\n\r\nabc'));
    await eventually('it is started', () => cut.requests.length === 1);
    cut.side.feedEnd();
    await eventually('the end', () => cut.events.includes('end'));
    assert.equal(cut.written, '');
    const quiet = adopted((request) => answer(request));
    quiet.side.feed(Buffer.from(GET));
    await eventually('the answer', () => quiet.written !== '');
    quiet.side.feedEnd();
    await eventually('the end', () => quiet.events.includes('end'));
  });

  it('ends where the client ended behind an Upgrade and an unreadable body, which node:http does not report', async () => {
    for (const body of ['24\r\n{"id"', 'no chunk\r\n']) {
      const wire = adopted(readsBody);
      const fields = 'Host: g\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nTransfer-Encoding: chunked\r\n';
      wire.side.feed(Buffer.from(`POST / HTTP/1.1\r\n${fields}\r\n${body}`));
      await eventually('it is started', () => wire.requests.length === 1);
      wire.side.feedEnd();
      await eventually('the end', () => wire.events.includes('end'));
      assert.equal(wire.written, '', body);
    }
  });
});

describe('the side of node:http', () => {
  const answers = (wire: Recorder): number => wire.written.match(/HTTP\/1\.1 /g)?.length ?? 0;
  const passed = async (): Promise<void> => {
    for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve));
  };

  it('is busy from the first byte until the last answer was written, whatever waits for what', async () => {
    const wire = adopted();
    assert.equal(wire.side.busy, false);
    wire.writable = false;
    wire.side.feed(Buffer.from(GET));
    await passed();
    assert.equal(wire.side.busy, true, 'bytes that may not be read yet');
    assert.equal(wire.requests.length, 0);
    wire.writable = true;
    wire.wake();
    await eventually('it is started', () => wire.requests.length === 1);
    assert.equal(wire.side.busy, true, 'a request that is served');
    assert.equal(wire.side.owing, true);
    for (const request of wire.requests) answer(request);
    assert.equal(wire.side.owing, false);
    await eventually('it is over', () => !wire.side.busy);
    assert.equal(answers(wire), 1);
  });

  it('is busy with a request that came together with the one that is served', async () => {
    const wire = adopted();
    wire.side.feed(Buffer.from(GET.repeat(2)));
    for (let served = 0; served < 2; served += 1) {
      await eventually('the next one is started', () => wire.requests.length === served + 1);
      await passed();
      assert.equal(wire.requests.length, served + 1);
      assert.equal(wire.side.busy, true);
      const request = wire.requests[served];
      if (request !== undefined) answer(request);
    }
    await eventually('it is over', () => !wire.side.busy);
  });

  it('is the latest request only for the last one that has come', async () => {
    const wire = adopted();
    wire.side.feed(Buffer.from(GET.repeat(2)));
    await eventually('the first is started', () => wire.requests.length === 1);
    assert.equal(wire.requests[0]?.latest, false);
    if (wire.requests[0] !== undefined) answer(wire.requests[0]);
    await eventually('the second is started', () => wire.requests.length === 2);
    assert.equal(wire.requests[1]?.latest, true);
  });

  /** How often a side stands in line while `chunks` are fed, each once as many requests have been answered. */
  async function turnsTaken(chunks: readonly string[], requests: number): Promise<number> {
    const clock = new CountingClock();
    const wire = adopted((request) => answer(request), 60_000, clock);
    for (const [at, chunk] of chunks.entries()) {
      wire.side.feed(Buffer.from(chunk));
      if (chunks.length > 1) await eventually('it is answered', () => answers(wire) === at + 1 && !wire.side.busy);
    }
    await eventually('all are answered', () => answers(wire) === requests);
    return clock.turns;
  }

  it('never stands in line for a client that sends one request at a time', async () => {
    assert.equal(await turnsTaken([GET, GET, GET, GET], 4), 0);
  });

  it('stands in line for what has come behind the first requests of a read', async () => {
    assert.ok((await turnsTaken([GET.repeat(60)], 60)) > 3);
  });

  it('stands in line for the rest of a body without an announced length, and takes more of it in each turn', async () => {
    const chunks = '1\r\nx\r\n'.repeat(10_000);
    const head = 'POST / HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n';
    const clock = new CountingClock();
    const wire = adopted(
      (request) => {
        request.listener = { aborted: ignored, fault: () => false };
        request.body(100_000, { bodyGrows: ignored, bodyRead: () => answer(request) });
      },
      60_000,
      clock,
    );
    wire.side.feed(Buffer.from(`${head}${chunks}0\r\n\r\n`));
    await eventually('it is answered', () => answers(wire) === 1);
    assert.equal(clock.turns, Math.ceil((chunks.length - 2_048) / 16_384));
  });

  it('ends where the client ended its side before its first request', async () => {
    const wire = adopted();
    wire.side.feedEnd();
    await eventually('the end', () => wire.events.includes('end'));
    assert.equal(wire.written, '');
  });

  it('says since when a head and a body arrive, and knows a request that is late', async () => {
    const late: string[] = [];
    const wire = adopted((request) => {
      request.listener = { aborted: ignored, fault: (fault) => late.push(fault) > 0 };
      request.body(100, { bodyGrows: ignored, bodyRead: ignored });
    });
    assert.equal(wire.side.headSinceMs, undefined);
    assert.equal(wire.side.late(), false);
    wire.side.feed(Buffer.from('POST / HTTP/1.1\r\nHost: g\r\nContent-'));
    await eventually('the head has begun', () => wire.side.headSinceMs !== undefined);
    assert.equal(wire.side.bodySinceMs, undefined);
    wire.side.feed(Buffer.from('Length: 4\r\n\r\nab'));
    await eventually('the body has begun', () => wire.requests.length === 1 && wire.side.bodySinceMs !== undefined);
    assert.equal(wire.side.headSinceMs, undefined);
    assert.equal(wire.side.late(), true);
    assert.deepEqual(late, ['timeout']);
    wire.side.feed(Buffer.from('cd'));
    await eventually('all of it is there', () => wire.side.bodySinceMs === undefined);
  });

  it('counts its requests on from those that have come before, and takes an empty line for no head', async () => {
    const wire = adopted((request) => answer(request));
    wire.side.feed(Buffer.from(GET));
    await eventually('it is answered', () => answers(wire) === 1 && !wire.side.busy);
    assert.equal(wire.side.requests, 1);
    wire.side.feed(Buffer.from('\r\n'));
    await passed();
    assert.equal(wire.side.headSinceMs, undefined);
    wire.side.feed(Buffer.from(GET.slice(0, 5)));
    await passed();
    assert.notEqual(wire.side.headSinceMs, undefined);
    wire.side.feed(Buffer.from(GET.slice(5)));
    await eventually('it is answered', () => answers(wire) === 2);
    assert.equal(wire.side.requests, 2);
    assert.equal(wire.side.headSinceMs, undefined);
  });

  it('gives node:http of a body of known length large slices, and few bytes behind it', async (t) => {
    const wire = adopted(readsBody);
    const push = t.mock.method(wire.side as NodeSide, 'push');
    const head = 'POST / HTTP/1.1\r\nHost: g\r\nContent-Length: 200000\r\n\r\n';
    wire.side.feed(Buffer.from(head + 'x'.repeat(200_000) + GET.repeat(1_000)));
    await eventually('the next one has come', () => wire.side.requests > 1);
    const lengths = push.mock.calls.map(({ arguments: [slice] }) => (slice as Buffer).length);
    assert.ok(lengths.length < 20, `${lengths.length} slices`);
    assert.equal(Math.max(...lengths), 65_536);
    let given = 0;
    for (const length of lengths) {
      const isInBody = given >= head.length && given < head.length + 200_000;
      given += length;
      if (isInBody) assert.ok(given - head.length - 200_000 < 1_024);
    }
  });

  it('says nothing of bytes that are no HTTP behind an answer that closes', async () => {
    const wire = adopted((request) => answer(request, true));
    wire.side.feed(Buffer.from(`${GET}garbage\r\n\r\n`));
    await eventually('the end', () => wire.events.some((one) => one.startsWith('end')));
    await passed();
    assert.equal(answers(wire), 1);
    assert.ok(!wire.events.includes('last: malformed'));
  });

  it('drops what comes behind bytes that are no HTTP, and is not busy with it', async () => {
    const wire = adopted();
    wire.side.feed(Buffer.from('garbage\r\n\r\n'));
    await eventually('it is answered', () => wire.events.includes('last: malformed'));
    wire.side.feed(Buffer.from(GET));
    assert.equal(wire.side.busy, false);
  });

  it('takes no turn that it has not asked for, and no bytes behind the end of the input', () => {
    const side = new NodeSide(new Recorder(), 7, ignored);
    assert.equal(side.requests, 7);
    assert.throws(() => side.takeTurn(), /only a side in line takes a turn/);
    side.feedEnd();
    assert.throws(() => side.feed(Buffer.from('x')), /before the client ends its side/);
  });
});

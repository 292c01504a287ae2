// The own reader on a connection in memory: what it reads when, what it writes, and that no byte is lost.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { PlainSide } from '../../lib/http/plain/side.ts';
import type { HttpRequest, ProtocolFault } from '../../lib/http/request.ts';
import type { ConnectionState, Wire } from '../../lib/http/side.ts';

const get = (target: string): string => `GET ${target} HTTP/1.1\r\nHost: g\r\n\r\n`;
const post = (target: string, body: string, announced = body.length): string =>
  `POST ${target} HTTP/1.1\r\nHost: g\r\nContent-Length: ${announced}\r\n\r\n${body}`;
const NOT_PLAIN = 'GET /node HTTP/1.0\r\n\r\n';

/** The connection's half, in memory. `onRequest` handles what comes; where it is none, nobody answers yet. */
class Recorder implements Wire {
  readonly keepAlive = '';
  readonly side = new PlainSide(this);
  readonly requests: HttpRequest[] = [];
  readonly events: string[] = [];
  state: ConnectionState = 'plain';
  writable = true;
  written = '';
  readsOn = true;
  paused = false;
  wakes = 0;
  readonly #onRequest: (request: HttpRequest) => void;

  constructor(onRequest: (request: HttpRequest) => void = () => undefined) {
    this.#onRequest = onRequest;
  }

  wake(): void {
    this.wakes += 1;
  }

  request(request: HttpRequest): void {
    this.requests.push(request);
    this.#onRequest(request);
  }

  mayReadOn(): boolean {
    return this.readsOn;
  }

  write(text: string | Buffer, encoding: BufferEncoding): void {
    this.written += typeof text === 'string' ? text : `<${text.toString(encoding)}>`;
  }

  pause(): void {
    this.paused = true;
  }

  resume(): void {
    this.paused = false;
  }

  stopReading(unread: boolean): void {
    this.events.push(unread ? 'stop reading, more comes' : 'stop reading');
    this.state = 'closing';
    this.side.stop();
  }

  end(unread: boolean): void {
    this.events.push(unread ? 'end, more comes' : 'end');
    this.state = 'closing';
  }

  sayLast(fault: ProtocolFault): void {
    this.events.push(`last: ${fault}`);
    this.state = 'closing';
  }

  abort(): void {
    this.events.push('abort');
  }

  prepareHandOver(): void {
    this.state = 'handing over';
  }

  handOver(rest: Buffer): void {
    this.events.push(`hand over ${rest.toString('latin1')}`);
    this.state = 'node';
  }

  feed(text: string): void {
    this.side.feed(Buffer.from(text, 'latin1'));
  }

  get targets(): string[] {
    return this.requests.map(({ target }) => target);
  }
}

const answer = (request: HttpRequest | undefined, close = false, body = ''): void =>
  void request?.respond('id', { status: 200, contentType: 'text/plain', body: `${request.target}${body}` }, close);
/** Reads the body of up to `bytesMax`, and says of it what comes. */
function reading(request: HttpRequest, bytesMax = 100): string[] {
  const said: string[] = [];
  const read = (body: Buffer): void => {
    said.push(`read ${body.toString()}`);
    answer(request);
  };
  request.listen({
    bodyGrows: () => undefined,
    bodyRead: read,
    bodyTooLarge: () => said.push('too large'),
    bodyAborted: () => said.push('aborted'),
    fault: (fault) => {
      said.push(fault);
      return request.respond('id', { status: 408, contentType: 'text/plain', body: fault }, true);
    },
  });
  const body = request.readBody(bytesMax);
  if (body !== undefined) read(body);
  return said;
}
/** What of each answer is its own: the body. */
const bodies = ({ written }: Recorder): string[] => written.split(/HTTP\/1\.1 [^]*?\r\n\r\n/).slice(1);

describe('the own reader', () => {
  it('reads what has come, and writes the answers in order at the end of the turn', () => {
    const wire = new Recorder();
    wire.feed(get('/a') + get('/b'));
    assert.deepEqual([wire.targets, wire.side.requests], [['/a'], 1], 'one look-up at a time');
    assert.deepEqual([wire.side.busy, wire.side.owing, wire.paused], [true, true, true]);
    answer(wire.requests[0]);
    assert.deepEqual([wire.written, wire.wakes > 0, wire.side.owing], ['', true, false]);
    wire.side.flush();
    assert.deepEqual([wire.targets, wire.side.requests, wire.paused], [['/a', '/b'], 2, false]);
    answer(wire.requests[1]);
    wire.side.flush();
    assert.deepEqual(bodies(wire), ['/a', '/b']);
    assert.deepEqual([wire.side.busy, wire.side.owing, wire.events], [false, false, []]);
  });

  it('writes nothing and reads nothing on while the client does not take its answers', () => {
    const wire = new Recorder(answer);
    wire.feed(get('/a'));
    wire.writable = false;
    wire.side.flush();
    wire.feed(get('/b'));
    assert.deepEqual([wire.written, wire.targets, wire.paused, wire.side.busy], ['', ['/a'], true, true]);
    wire.writable = true;
    wire.side.flush();
    wire.side.flush();
    assert.deepEqual([bodies(wire), wire.paused, wire.side.busy], [['/a', '/b'], false, false]);
  });

  it('reads one in a turn where requests are answered at once and no more may be', () => {
    const wire = new Recorder((request) => void reading(request));
    wire.readsOn = false;
    wire.feed(post('/a', '') + post('/b', '') + post('/c', ''));
    const seen = [wire.requests.length];
    for (let turn = 0; turn < 2; turn += 1) {
      wire.side.flush();
      seen.push(wire.requests.length);
    }
    assert.deepEqual(seen, [1, 2, 3]);
  });

  it('writes bytes of an answer behind its head, as they are', () => {
    const wire = new Recorder((request) => {
      request.respond('id', { status: 200, contentType: 'a/b', body: [Buffer.from([0xe9]), Buffer.from('b')] }, false);
    });
    wire.feed(get('/a'));
    wire.side.flush();
    assert.deepEqual(bodies(wire), ['<é><b>']);
  });
});

describe('a body', () => {
  it('is read in the parts that come, and the next request behind it', () => {
    const said: string[][] = [];
    const wire = new Recorder((request) => said.push(reading(request)));
    wire.feed(post('/a', 'ab', 6));
    assert.deepEqual([wire.side.bodySinceMs === undefined, wire.side.busy], [false, true]);
    wire.feed('cd');
    wire.feed(`ef${get('/b')}`);
    assert.deepEqual([said[0], wire.targets, wire.side.bodySinceMs], [['read abcdef'], ['/a', '/b'], undefined]);
  });

  it('waits unread, and nothing behind it is read, until somebody wants it or nobody does', () => {
    for (const decide of [(request: HttpRequest) => void reading(request), answer]) {
      const wire = new Recorder();
      wire.feed(post('/a', 'ab', 4));
      wire.feed(`cd${post('/b', '')}`);
      assert.deepEqual([wire.targets, wire.paused], [['/a'], true]);
      const [first] = wire.requests;
      assert.deepEqual([first?.complete, first?.latest], [false, false]);
      decide(first as HttpRequest);
      wire.side.flush();
      assert.deepEqual([wire.targets, wire.paused, first?.complete], [['/a', '/b'], false, true]);
    }
  });

  it('is too large by its length, and thrown away', () => {
    const said: string[][] = [];
    const wire = new Recorder((request) => {
      said.push(reading(request, 3));
      if (said.length === 1) answer(request);
    });
    wire.feed(post('/a', 'ab', 4));
    wire.feed(`cd${post('/b', 'abc')}`);
    wire.side.flush();
    assert.deepEqual(said, [['too large'], ['read abc']]);
    assert.deepEqual(bodies(wire), ['/a', '/b']);
  });

  it('of which the client ends its side in the middle is aborted, and nothing is owed for it', () => {
    const said: string[][] = [];
    const wire = new Recorder((request) => said.push(reading(request)));
    wire.feed(post('/a', '') + post('/b', 'ab', 4));
    wire.side.feedEnd();
    wire.side.flush();
    wire.side.flush();
    assert.deepEqual(said, [['read '], ['aborted']]);
    assert.deepEqual([bodies(wire), wire.events, wire.side.busy], [['/a'], ['end'], false]);
  });

  it('that was answered before it was cut keeps its answer', () => {
    const wire = new Recorder(answer);
    wire.feed(post('/a', 'ab', 4));
    wire.side.feedEnd();
    wire.side.flush();
    wire.side.flush();
    assert.deepEqual([bodies(wire), wire.events], [['/a'], ['end']]);
  });

  it('that is late is its handler’s to answer for; without one that is arriving nothing is late', () => {
    const said: string[][] = [];
    const wire = new Recorder((request) => said.push(reading(request)));
    assert.equal(wire.side.late(), false);
    wire.feed(post('/a', 'ab', 4));
    assert.equal(wire.side.late(), true);
    wire.side.flush();
    assert.deepEqual([said, bodies(wire)], [[['timeout']], ['timeout']]);
    assert.equal(wire.events[0], 'stop reading, more comes');
  });
});

describe('the last request of a connection', () => {
  it('is the one that nothing has come behind, not even a part of a head', () => {
    for (const [behind, latest] of [
      ['', true],
      ['G', false],
      [get('/b'), false],
    ] as const) {
      const wire = new Recorder();
      wire.feed(get('/a') + behind);
      assert.equal(wire.requests[0]?.latest, latest, JSON.stringify(behind));
    }
  });

  it('counts its own body as its own, and no byte more', () => {
    for (const [rest, latest] of [
      ['b', true],
      ['bc', true],
      ['bcd', false],
    ] as const) {
      const wire = new Recorder();
      wire.feed(post('/a', 'a', 3));
      wire.feed(rest);
      assert.equal(wire.requests[0]?.latest, latest, rest);
    }
  });

  it('closes the connection behind its answer, and nothing behind it is read or answered', () => {
    const wire = new Recorder();
    wire.feed(post('/a', '') + post('/b', '') + post('/c', ''));
    answer(wire.requests[1], true);
    assert.deepEqual(wire.events, ['stop reading']);
    wire.side.flush();
    assert.deepEqual(wire.written, '', 'the one before it is owed');
    answer(wire.requests[0]);
    wire.side.flush();
    assert.deepEqual(bodies(wire), ['/a', '/b']);
    assert.deepEqual(wire.events, ['stop reading', 'end']);
  });

  it('closes with the client still sending where its body has not come', () => {
    const wire = new Recorder((request) => answer(request, true));
    wire.feed(post('/a', 'ab', 4));
    assert.deepEqual(wire.events, ['stop reading, more comes']);
  });
});

describe('a request that is not plain', () => {
  it('goes to node:http with every byte from its first on, once all before it is answered', () => {
    const wire = new Recorder();
    wire.feed(post('/a', '') + NOT_PLAIN);
    wire.feed('and more');
    assert.deepEqual([wire.targets, wire.state, wire.paused], [['/a'], 'handing over', true]);
    wire.side.flush();
    assert.deepEqual(wire.events, []);
    answer(wire.requests[0]);
    wire.writable = false;
    wire.side.flush();
    assert.deepEqual(wire.events, []);
    wire.writable = true;
    wire.side.flush();
    assert.deepEqual(wire.events, [`hand over ${NOT_PLAIN}and more`]);
    assert.deepEqual(bodies(wire), ['/a']);
  });

  it('pauses the connection also where nothing of it waits', () => {
    const wire = new Recorder();
    wire.feed('PUT');
    wire.side.flush();
    assert.deepEqual([wire.paused, ...wire.events], [true, 'hand over PUT']);
  });
});

describe('the end of the client’s side', () => {
  it('ends the connection once all is read and answered', () => {
    const wire = new Recorder();
    wire.feed(post('/a', ''));
    wire.side.feedEnd();
    wire.side.flush();
    assert.deepEqual(wire.events, []);
    answer(wire.requests[0]);
    wire.side.flush();
    assert.deepEqual([bodies(wire), wire.events], [['/a'], ['end']]);
  });

  it('in the middle of a head is malformed', () => {
    const wire = new Recorder();
    wire.feed('GET /a HT');
    wire.side.flush();
    assert.deepEqual(wire.events, []);
    wire.side.feedEnd();
    wire.side.flush();
    assert.deepEqual(wire.events, ['last: malformed']);
  });

  it('does nothing to a connection that is closing or closed', () => {
    for (const state of ['closing', 'closed', 'node'] as const) {
      const wire = new Recorder();
      wire.side.feedEnd();
      wire.state = state;
      wire.side.flush();
      assert.deepEqual(wire.events, [], state);
    }
  });
});

describe('the time of a head', () => {
  it('is counted from its first byte to its last, not anew for each part, and not between requests', () => {
    const wire = new Recorder((request) => void reading(request));
    assert.equal(wire.side.headSinceMs, undefined);
    const before = performance.now();
    wire.feed('POST /a ');
    const since = wire.side.headSinceMs ?? 0;
    assert.ok(since >= before && since <= performance.now());
    wire.feed('HTTP/1.1\r\nHost: g\r\nContent-Le');
    assert.equal(wire.side.headSinceMs, since);
    wire.feed('ngth: 2\r\n\r\na');
    assert.deepEqual([wire.side.headSinceMs, wire.side.bodySinceMs], [undefined, since]);
    wire.feed('b');
    assert.deepEqual([wire.side.headSinceMs, wire.side.bodySinceMs], [undefined, undefined]);
    wire.feed('\r');
    assert.equal(wire.side.headSinceMs, undefined, 'an empty line is no head');
  });

  it('ends where nothing is read any more', () => {
    const wire = new Recorder();
    wire.feed('GET /a');
    wire.side.stop();
    assert.deepEqual([wire.side.headSinceMs, wire.side.busy], [undefined, false]);
  });
});

describe('a connection that is closed', () => {
  it('aborts the body that was arriving, forgets what it owed, and has nobody to be answered', () => {
    const said: string[][] = [];
    const wire = new Recorder((request) => said.push(reading(request)));
    wire.feed(post('/a', 'ab', 4));
    wire.state = 'closed';
    wire.side.close();
    assert.deepEqual(said, [['aborted']]);
    assert.deepEqual([wire.side.busy, wire.side.owing, wire.side.bodySinceMs], [false, false, undefined]);
    assert.deepEqual([wire.side.gone, wire.requests[0]?.gone], [true, true]);
    assert.equal(wire.requests[0]?.respond('id', { status: 200, contentType: 'a/b', body: '' }, false), false);
    wire.side.flush();
    assert.deepEqual([wire.written, ...wire.events], ['']);
  });

  it('reads nothing of what still comes', () => {
    const wire = new Recorder();
    wire.state = 'closed';
    wire.side.close();
    wire.feed(get('/a'));
    assert.deepEqual(wire.targets, []);
  });
});

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { NodeRequest } from '../../lib/http/node/request.ts';
import type { HttpRequest } from '../../lib/http/request.ts';
import { HandOver } from '../../lib/http/node/hand-over.ts';
import { NodeSide } from '../../lib/http/node/side.ts';
import {
  adopted,
  answer,
  answers,
  CountingClock,
  GET,
  ignored,
  passed,
  readsBody,
  Recorder,
} from '../support/node-wire.ts';
import { eventually } from '../support/scope.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const isLatest = ({ side }: ReturnType<typeof adopted>, request: HttpRequest | undefined): boolean =>
  request instanceof NodeRequest && side.isLatest(request);

describe('the side of node:http', () => {
  it('is busy from the first byte until the last answer was written', async () => {
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

  it('is busy with a request after the served one', async () => {
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

  it('knows the latest request', async () => {
    const wire = adopted();
    wire.side.feed(Buffer.from(GET.repeat(2)));
    await eventually('the first is started', () => wire.requests.length === 1);
    assert.equal(isLatest(wire, wire.requests[0]), false);
    if (wire.requests[0] !== undefined) answer(wire.requests[0]);
    await eventually('the second is started', () => wire.requests.length === 2);
    assert.equal(isLatest(wire, wire.requests[1]), true);
  });

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

  it('never waits in line for a client that sends one request at a time', async () => {
    assert.equal(await turnsTaken([GET, GET, GET, GET], 4), 0);
  });

  it('waits in line after the first requests of a read', async () => {
    assert.ok((await turnsTaken([GET.repeat(60)], 60)) > 3);
  });

  it('waits in line within a body without an announced length, and reads more of it in each turn', async () => {
    const chunks = '1\r\nx\r\n'.repeat(10_000);
    const head = 'POST / HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n';
    const clock = new CountingClock();
    const wire = adopted(
      (request) => {
        request.listener = { aborted: ignored, fault: () => false };
        request.receive(100_000, { bodyGrows: ignored, bodyRead: () => answer(request) });
      },
      60_000,
      clock,
    );
    wire.side.feed(Buffer.from(`${head}${chunks}0\r\n\r\n`));
    await eventually('it is answered', () => answers(wire) === 1);
    assert.equal(clock.turns, Math.ceil((chunks.length - 2_048) / 16_384));
  });

  it('ends if the client ended its side before its first request', async () => {
    const wire = adopted();
    wire.side.feedEnd();
    await eventually('the end', () => wire.events.includes('end'));
    assert.equal(wire.written, '');
  });

  it('reports the arrival of heads and bodies, and late requests', async () => {
    const late: string[] = [];
    const wire = adopted((request) => {
      request.listener = { aborted: ignored, fault: (fault) => late.push(fault) > 0 };
      request.receive(100, { bodyGrows: ignored, bodyRead: ignored });
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

  it('counts requests after the earlier ones, and no empty lines', async () => {
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

  it('feeds large slices of a body of known length, and few bytes after it', async (t) => {
    const wire = adopted(readsBody);
    const push = t.mock.method(wire.side, 'push');
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

  it('reads and starts no request while the client does not read its answers', async () => {
    const wire = adopted();
    wire.writable = false;
    wire.side.feed(Buffer.from(GET.repeat(2)));
    await passed();
    assert.equal(wire.side.requests, 0);
    wire.writable = true;
    wire.wake();
    await eventually('the first is started', () => wire.requests.length === 1);
    assert.equal(wire.side.requests, 2);
    wire.writable = false;
    for (const request of wire.requests) answer(request);
    await passed();
    assert.equal(wire.requests.length, 1);
    wire.writable = true;
    wire.wake();
    await eventually('the second is started', () => wire.requests.length === 2);
  });

  it('knows the latest request of several slices', async () => {
    const latest: boolean[] = [];
    const wire: ReturnType<typeof adopted> = adopted((request) => {
      latest.push(isLatest(wire, request));
      answer(request);
    });
    wire.side.feed(Buffer.from(GET.repeat(20)));
    await eventually('all are answered', () => answers(wire) === 20);
    assert.deepEqual(latest, [...Array.from({ length: 19 }, () => false), true]);
  });

  it('ends if a discarded body is unreadable', async () => {
    const post = (field: string): string => GET.replace('GET', 'POST').replace('Host', `${field}\r\nHost`);
    for (const [text, goOn] of [
      [post('Transfer-Encoding: chunked'), (wire: Recorder) => wire.side?.feed(Buffer.from('no chunk\r\n'))],
      [`${post('Content-Length: 10')}abc`, (wire: Recorder) => wire.side?.feedEnd()],
    ] as const) {
      const wire = adopted((request) => answer(request));
      wire.side.feed(Buffer.from(text));
      await eventually('it is answered', () => answers(wire) === 1);
      await passed();
      goOn(wire);
      await eventually('the end', () => wire.events.includes('end, more comes'));
      assert.equal(answers(wire), 1);
    }
  });

  it('reports with an answer that closes if the client may still be sending', async () => {
    for (const [what, text, lingers] of [
      ['a whole request', GET, false],
      ['with others behind it', GET.repeat(20), true],
      ['whose body has not come', GET.replace('GET', 'POST').replace('Host', 'Content-Length: 9\r\nHost'), true],
      ['that asks for another protocol', GET.replace('Host', 'Upgrade: h2c\r\nHost'), true],
    ] as const) {
      const wire = adopted((request) => answer(request, true));
      wire.side.feed(Buffer.from(text));
      await eventually('it is answered', () => answers(wire) === 1);
      assert.equal(wire.lingers, lingers, what);
    }
  });

  it('ignores malformed bytes after an answer that closes', async () => {
    const wire = adopted((request) => answer(request, true));
    wire.side.feed(Buffer.from(`${GET}garbage\r\n\r\n`));
    await eventually('the end', () => wire.events.some((one) => one.startsWith('end')));
    await passed();
    assert.equal(answers(wire), 1);
    assert.ok(!wire.events.includes('last: malformed'));
  });

  it('drops all input after malformed bytes', async () => {
    const wire = adopted();
    wire.side.feed(Buffer.from('garbage\r\n\r\n'));
    await eventually('it is answered', () => wire.events.includes('last: malformed'));
    wire.side.feed(Buffer.from(GET));
    assert.equal(wire.side.busy, false);
  });

  it('takes turns only on request, and accepts no bytes after the end of the input', () => {
    const side = new NodeSide(new Recorder(), 7, ignored);
    assert.equal(side.requests, 7);
    assert.throws(() => side.takeTurn(), /only a side in line takes a turn/);
    side.feedEnd();
    assert.throws(() => side.feed(Buffer.from('x')), /before the client ends its side/);
  });

  it('ignores an unknown expectation', async () => {
    const wire = adopted((request) => answer(request));
    wire.side.feed(Buffer.from(GET.replace('Host', 'Expect: more\r\nHost')));
    await eventually('it is answered', () => answers(wire) === 1);
    assert.doesNotMatch(wire.written, /100 Continue|Connection: close/);
  });

  it('takes turns with other busy sides, four in each turn', async () => {
    class Turns extends VirtualClock {
      readonly waiting: (() => void)[] = [];

      override turnEnd(run: () => void): void {
        this.waiting.push(run);
      }
    }
    const clock = new Turns();
    const handOver = new HandOver({ headerBytesMax: 16_384, idleTimeoutMs: 60_000 }, clock);
    const wires = Array.from({ length: 9 }, () => new Recorder((request) => answer(request)));
    for (const wire of wires) {
      wire.side = handOver.adopt(wire, 0);
      wire.side.feed(Buffer.from(GET.repeat(60)));
    }
    await passed();
    for (const expected of [
      [0, 1, 2, 3],
      [4, 5, 6, 7],
      [0, 1, 2, 8],
    ]) {
      const before = wires.map(({ requests }) => requests.length);
      assert.equal(clock.waiting.length, 1);
      for (const run of clock.waiting.splice(0)) run();
      await passed();
      const went = [...wires.entries()].filter(([at, { requests }]) => requests.length > (before[at] ?? 0));
      assert.deepEqual(
        went.map(([at]) => at),
        expected,
      );
    }
  });
});

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { NodeRequest } from '../../lib/http/node/request.ts';
import type { HttpRequest } from '../../lib/http/request.ts';
import { HandOver } from '../../lib/http/node/hand-over.ts';
import { adopted, answer, answers, CountingClock, GET, ignored, passed, Recorder } from '../support/node-wire.ts';
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

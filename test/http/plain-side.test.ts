// The own reader on a connection in memory: what it reads when, what it writes, and that no byte is lost.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { HttpRequest } from '../../lib/http/request.ts';
import { answer, bodies, get, post, reading, WireRecorder } from '../support/plain-wire.ts';

const NOT_PLAIN = 'GET /node HTTP/1.0\r\n\r\n';

describe('the own reader', () => {
  it('reads what has come, and writes the answers in order at the end of the turn', () => {
    const wire = new WireRecorder();
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

  it('reads all that came in one turn where it is answered at once, and tells which request is the last', () => {
    const wire = new WireRecorder(answer);
    wire.feed(get('/a') + get('/b') + get('/c'));
    assert.deepEqual(wire.targets, ['/a', '/b', '/c']);
    assert.deepEqual(
      wire.requests.map(({ latest }) => latest),
      [false, false, true],
    );
  });

  it('is busy with what waits unread, until nothing is read any more', () => {
    for (const end of ['stop', 'close'] as const) {
      const wire = new WireRecorder(answer);
      wire.writable = false;
      wire.feed(get('/a'));
      assert.deepEqual([wire.targets, wire.side.owing, wire.side.busy], [[], false, true]);
      wire.side[end]();
      assert.equal(wire.side.busy, false, end);
    }
  });

  it('writes nothing and reads nothing on while the client does not take its answers', () => {
    const wire = new WireRecorder(answer);
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
    const wire = new WireRecorder((request) => void reading(request));
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
    const wire = new WireRecorder((request) => {
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
    const wire = new WireRecorder((request) => said.push(reading(request)));
    wire.feed(post('/a', 'ab', 6));
    assert.deepEqual([wire.side.bodySinceMs === undefined, wire.side.busy], [false, true]);
    wire.feed('cd');
    wire.feed(`ef${get('/b')}`);
    assert.deepEqual([said[0], wire.targets, wire.side.bodySinceMs], [['read abcdef'], ['/a', '/b'], undefined]);
  });

  it('waits unread, and nothing behind it is read, until somebody wants it or nobody does', () => {
    for (const decide of [(request: HttpRequest) => void reading(request), answer]) {
      const wire = new WireRecorder();
      wire.feed(post('/a', 'ab', 4));
      wire.feed(`cd${post('/b', '')}`);
      assert.deepEqual([wire.targets, wire.paused], [['/a'], true]);
      const [first] = wire.requests;
      assert.deepEqual([first?.restMayExceed(3), first?.restMayExceed(4), first?.latest], [true, false, false]);
      const { wakes } = wire;
      decide(first as HttpRequest);
      assert.ok(wire.wakes > wakes);
      wire.side.flush();
      assert.deepEqual([wire.targets, wire.paused, first?.restMayExceed(0)], [['/a', '/b'], false, false]);
    }
  });

  it('is too large by its length, and thrown away', () => {
    const said: string[][] = [];
    const wire = new WireRecorder((request) => {
      said.push(reading(request, 3));
      if (said.length === 1) answer(request);
    });
    wire.feed(post('/a', 'ab', 4));
    wire.feed(`cd${post('/b', 'abc')}`);
    wire.side.flush();
    assert.deepEqual(said, [['too large'], ['read abc']]);
    assert.deepEqual(bodies(wire), ['/a', '/b']);
  });

  it('that nobody wants keeps the connection busy until it has passed', () => {
    const wire = new WireRecorder(answer);
    wire.feed(post('/a', 'ab', 4));
    wire.side.flush();
    assert.deepEqual([bodies(wire), wire.side.busy, wire.side.owing], [['/a'], true, false]);
    wire.feed('cd');
    assert.equal(wire.side.busy, false);
  });

  it('that waits unread to its end is no body that the client has cut', () => {
    const wire = new WireRecorder();
    wire.feed(post('/a', 'ab', 4));
    wire.feed('cd');
    const { wakes } = wire;
    wire.side.feedEnd();
    assert.ok(wire.wakes > wakes);
    wire.side.flush();
    assert.deepEqual(reading(wire.requests[0] as HttpRequest), []);
    wire.side.flush();
    wire.side.flush();
    assert.deepEqual([bodies(wire), wire.events], [['/a'], ['end']]);
  });

  it('of which the client ends its side in the middle is aborted, and nothing is owed for it', () => {
    const said: string[][] = [];
    const wire = new WireRecorder((request) => said.push(reading(request)));
    wire.feed(post('/a', '') + post('/b', 'ab', 4));
    wire.side.feedEnd();
    wire.side.flush();
    wire.side.flush();
    assert.deepEqual(said, [['read '], ['aborted']]);
    assert.deepEqual([bodies(wire), wire.events, wire.side.busy], [['/a'], ['end'], false]);
  });

  it('that was answered before it was cut keeps its answer', () => {
    const wire = new WireRecorder(answer);
    wire.feed(post('/a', 'ab', 4));
    wire.side.feedEnd();
    wire.writable = false;
    wire.side.flush();
    wire.writable = true;
    wire.side.flush();
    assert.deepEqual([bodies(wire), wire.events], [['/a'], ['end']]);
  });

  it("that is late is its handler's to answer for; without one that is arriving nothing is late", () => {
    const said: string[][] = [];
    const wire = new WireRecorder((request) => said.push(reading(request)));
    assert.equal(wire.side.late(), false);
    wire.feed(post('/a', 'ab', 4));
    assert.equal(wire.side.late(), true);
    wire.side.flush();
    assert.deepEqual([said, bodies(wire)], [[['timeout']], ['timeout']]);
    assert.equal(wire.events[0], 'stop reading, more comes');
  });
});

describe('a request that is not plain', () => {
  it('goes to node:http with every byte from its first on, once all before it is answered', () => {
    const wire = new WireRecorder();
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
    const wire = new WireRecorder();
    wire.feed('PUT');
    wire.side.flush();
    assert.deepEqual([wire.paused, ...wire.events], [true, 'hand over PUT']);
  });
});

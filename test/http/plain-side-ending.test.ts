// How the own reader's part of a connection ends, by an answer, by the client or by time, on a connection in memory.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { answer, bodies, get, post, reading, WireRecorder } from '../support/plain-wire.ts';

describe('the last request of a connection', () => {
  it('is the one that nothing has come behind, not even a part of a head', () => {
    for (const [behind, latest] of [
      ['', true],
      ['G', false],
      [get('/b'), false],
    ] as const) {
      const wire = new WireRecorder();
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
      const wire = new WireRecorder();
      wire.feed(post('/a', 'a', 3));
      wire.feed(rest);
      assert.equal(wire.requests[0]?.latest, latest, rest);
    }
  });

  it('closes the connection behind its answer, and nothing behind it is read or answered', () => {
    const wire = new WireRecorder();
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
    const wire = new WireRecorder((request) => answer(request, true));
    wire.feed(post('/a', 'ab', 4));
    assert.deepEqual(wire.events, ['stop reading, more comes']);
  });
});

describe("the end of the client's side", () => {
  it('ends the connection once all is read and answered', () => {
    const wire = new WireRecorder();
    wire.feed(post('/a', ''));
    wire.side.feedEnd();
    wire.side.flush();
    assert.deepEqual(wire.events, []);
    answer(wire.requests[0]);
    wire.side.flush();
    assert.deepEqual([bodies(wire), wire.events], [['/a'], ['end']]);
  });

  it('in the middle of a head is malformed', () => {
    const wire = new WireRecorder();
    wire.feed('GET /a HT');
    wire.side.flush();
    assert.deepEqual(wire.events, []);
    wire.side.feedEnd();
    wire.side.flush();
    assert.deepEqual(wire.events, ['last: malformed']);
  });

  it('does nothing to a connection that is closing or closed', () => {
    for (const state of ['closing', 'closed', 'node'] as const) {
      const wire = new WireRecorder();
      wire.side.feedEnd();
      wire.state = state;
      wire.side.flush();
      assert.deepEqual(wire.events, [], state);
    }
  });
});

describe('the time of a head', () => {
  it('is counted from its first byte to its last, not anew for each part, and not between requests', () => {
    const wire = new WireRecorder((request) => void reading(request));
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
    const wire = new WireRecorder();
    wire.feed('GET /a');
    wire.side.stop();
    assert.deepEqual([wire.side.headSinceMs, wire.side.busy], [undefined, false]);
  });
});

describe('a connection that is closed', () => {
  it('aborts the body that was arriving, forgets what it owed, and has nobody to be answered', () => {
    const said: string[][] = [];
    const wire = new WireRecorder((request) => said.push(reading(request)));
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
    const wire = new WireRecorder();
    wire.state = 'closed';
    wire.side.close();
    wire.feed(get('/a'));
    assert.deepEqual(wire.targets, []);
  });
});

// Facts about node:http that the hand-over relies on. If a new version of Node.js changes a fact, its test fails.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { adopted, answer, GET, readsBody } from '../support/node-wire.ts';
import { eventually } from '../support/scope.ts';

describe('node:http on our stream', () => {
  it('reads requests and writes their answers, in order', async () => {
    const wire = adopted((request) => answer(request));
    wire.side.feed(Buffer.from(GET.repeat(3)));
    await eventually('three answers', () => wire.written.match(/HTTP\/1\.1 200 OK/g)?.length === 3);
    assert.equal(wire.side.busy, false);
  });

  it('sets no timer, so the stream stays open after the announced idle time', async () => {
    const wire = adopted((request) => answer(request), 1_000);
    wire.side.feed(Buffer.from(GET));
    await eventually('an answer', () => wire.written.includes('Keep-Alive: timeout=1'));
    // Something that must not happen has no event to wait for, so the test waits longer than the idle time.
    await new Promise((resolve) => setTimeout(resolve, 2_500));
    wire.side.feed(Buffer.from(GET));
    await eventually('another', () => wire.requests.length === 2);
    assert.deepEqual(
      wire.events.filter((one) => one !== 'pause'),
      [],
    );
  });

  it('receives no more requests than one piece holds while none is answered', async () => {
    const wire = adopted();
    wire.side.feed(Buffer.from(GET.repeat(2_000)));
    await eventually('one is started', () => wire.requests.length > 0);
    for (let turn = 0; turn < 50; turn += 1) await new Promise((resolve) => setImmediate(resolve));
    assert.equal(wire.requests.length, 1, 'one look-up at a time');
    assert.ok(wire.side.requests <= Math.ceil(1_024 / GET.length), `${wire.side.requests} requests were read`);
    assert.ok(wire.events.includes('pause'));
  });

  it('ends the stream after an answer that closes, and starts no later request', async () => {
    const wire = adopted((request) => answer(request, true));
    wire.side.feed(Buffer.from(GET.repeat(2)));
    await eventually('the end', () => wire.events.includes('end'));
    assert.equal(wire.requests.length, 1);
    assert.match(wire.written, /Connection: close/);
  });

  // Node.js holds back the second piece of the body until the body is read.
  const LONG = `POST / HTTP/1.1\r\nHost: g\r\nContent-Length: 300\r\n\r\n${'x'.repeat(300)}`;
  const turns = async (): Promise<void> => {
    for (let turn = 0; turn < 50; turn += 1) await new Promise((resolve) => setImmediate(resolve));
  };

  it('ends after an answer to a client that waits for 100 (Continue), and starts no later request', async () => {
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

  it('starts no request after an answer that closes, in the discarded rest of a body', async () => {
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

  it('writes no answers by itself: not to a missing Host, many fields, an unknown expectation, CONNECT or garbage', async () => {
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

  it('ends without an answer if the client ended inside a body, or if no answer is owed', async () => {
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

  it('ends if the client ended after an Upgrade and an unreadable body, which node:http does not report', async () => {
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

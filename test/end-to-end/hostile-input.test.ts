import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { before, describe, it } from 'node:test';
import { fileGateway } from '../support/file-gateway.ts';
import { event, TestGateway, type RawConnection } from '../support/gateway.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { addsNothing, assertAlive, assertNoBugs } from '../support/verdicts.ts';
import { askRaw, postText, replies, repliesIn, requestText, type WireReply } from '../support/wire.ts';

const BODY_BYTES_MAX = 20_000;

const { redis, gateway, producer, pki } = await fileGateway({ INGEST_BODY_BYTES_MAX: String(BODY_BYTES_MAX) });

const open = (to = gateway): Promise<RawConnection> => to.socket(producer);

function assertRefused(reply: WireReply | undefined, status: number, code: string): void {
  assert.equal(reply?.status, status, JSON.stringify(reply));
  assert.equal(reply.headers['content-type'], 'application/problem+json');
  assert.match(reply.headers['x-request-id'] ?? '', /^[\x21-\x7e]{1,128}$/);
  assert.equal((JSON.parse(reply.body) as { code: string }).code, code);
}

async function refusedAndClosed(text: string | Buffer, status: number, code: string, by = gateway): Promise<void> {
  await addsNothing(redis, async () => {
    const connection = await open(by);
    connection.write(text);
    assertRefused((await replies(connection, 1))[0], status, code);
    await connection.untilClosed();
    assert.equal(repliesIn(connection.received).length, 1);
    assert.equal(repliesIn(connection.received)[0]?.headers['connection'], 'close');
  });
}

describe('a slow client', () => {
  let hurried: TestGateway;
  before(async () => {
    hurried = await TestGateway.start(redis, pki, {
      INGEST_ENQUEUE_TIMEOUT_MS: '1000',
      INGEST_REQUEST_TIMEOUT_MS: '2000',
    });
    atEnd(() => {
      assert.equal(hurried.child.exitCode, null, hurried.output);
      assertNoBugs(hurried);
    });
  });

  it('that keeps sending header fields slowly gets 408', async () => {
    const connection = await open(hurried);
    connection.write('POST /events HTTP/1.1\r\n');
    const drip = setInterval(() => connection.socket.write('X-A: b\r\n'), 100);
    atEnd(() => clearInterval(drip));
    assertRefused((await replies(connection, 1))[0], 408, 'REQUEST_TIMEOUT');
    clearInterval(drip);
    await connection.untilClosed();
  });

  it('that never ends its chunks gets 408', () =>
    refusedAndClosed(
      'POST /events HTTP/1.1\r\nHost: g\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n',
      408,
      'REQUEST_TIMEOUT',
      hurried,
    ));

  it('that sends nothing is disconnected without an answer', async () => {
    const connection = await hurried.socket();
    await connection.untilClosed();
    assert.equal(connection.received, '');
  });
});

describe('a client that leaves', () => {
  it('after a complete request still gets its answer', async () => {
    const connection = await open();
    connection.socket.end(postText(event('half-closed')));
    assert.equal((await replies(connection, 1))[0]?.status, 202);
    await connection.untilClosed();
  });

  it('in the middle of a body is an aborted request', async () => {
    const before = await gateway.metric('ingest_aborted_total');
    await addsNothing(redis, async () => {
      for (const leave of ['end', 'destroy'] as const) {
        const connection = await open();
        connection.write(
          'POST /events HTTP/1.1\r\nHost: g\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{',
        );
        await eventually('it is in flight', async () => (await gateway.metric('ingest_events_in_flight')) === 1);
        connection.socket[leave]();
        await eventually(
          'it is in flight no more',
          async () => (await gateway.metric('ingest_events_in_flight')) === 0,
        );
      }
    });
    assert.equal(await gateway.metric('ingest_aborted_total'), before + 2);
  });

  it('in the middle of the headers gets 400 and holds no place', async () => {
    const connection = await open();
    connection.socket.end('POST /events HTTP/1.1\r\nHost: g\r\nX-');
    await connection.untilClosed();
    assert.match(connection.received, /^HTTP\/1\.1 400 /);
    assert.equal(await gateway.metric('ingest_events_in_flight'), 0);
  });
});

describe('a body over the limit', () => {
  const head = 'POST /events HTTP/1.1\r\nHost: g\r\nContent-Type: application/json\r\n';

  it('is refused if its length exceeds any number', async () => {
    const connection = await open();
    connection.write(`${head}Content-Length: 99999999999999999999999\r\n\r\n`);
    const status = (await replies(connection, 1))[0]?.status;
    assert.ok(status === 400 || status === 413);
  });

  for (const framing of ['Content-Length: 50000000', 'Transfer-Encoding: chunked']) {
    it(`is answered to a client that keeps sending (${framing.slice(0, 17)})`, async () => {
      const connection = await open();
      connection.write(`${head}${framing}\r\n\r\n`);
      const piece = 'y'.repeat(65_536);
      const chunk = framing.startsWith('T') ? `10000\r\n${piece}\r\n` : piece;
      const sending = setInterval(() => {
        if (connection.socket.writable) connection.socket.write(chunk);
      }, 5);
      atEnd(() => clearInterval(sending));
      assertRefused((await replies(connection, 1))[0], 413, 'INVALID_EVENT');
      await eventually('the connection ends', () => connection.closed || connection.ended);
      clearInterval(sending);
    });
  }
});

describe('broken framing', () => {
  const json = 'Content-Type: application/json';
  const chunked = 'Transfer-Encoding: chunked';
  const body = event('smuggled');
  const cases: Readonly<Record<string, string>> = {
    'an unknown method': requestText('FOO /events'),
    'a chunk size that is no number': requestText('POST /events', [json, chunked], `zz\r\n${body}\r\n0\r\n\r\n`),
    'a negative chunk size': requestText('POST /events', [json, chunked], `-5\r\n${body}\r\n0\r\n\r\n`),
    'a chunk size past 64 bits': requestText(
      'POST /events',
      [json, chunked],
      `fffffffffffffffff\r\n${body}\r\n0\r\n\r\n`,
    ),
    'a chunk longer than its size': requestText('POST /events', [json, chunked], `2\r\n${body}\r\n0\r\n\r\n`),
    'both lengths': requestText(
      'POST /events',
      [json, chunked, `Content-Length: ${body.length}`],
      `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`,
    ),
    'both lengths, the other way round': requestText(
      'POST /events',
      [json, `Content-Length: ${body.length}`, chunked],
      `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`,
    ),
    'two content lengths': requestText(
      'POST /events',
      [json, 'Content-Length: 5', `Content-Length: ${body.length}`],
      body,
    ),
    'a negative content length': requestText('POST /events', [json, 'Content-Length: -1'], body),
    'chunked not last': requestText(
      'POST /events',
      [json, 'Transfer-Encoding: chunked, identity'],
      `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`,
    ),
    'a header without a colon': requestText('POST /events', [json, 'Broken'], body),
    'a space before the colon': requestText('POST /events', [json, 'Broken : x'], body),
    'a NUL in a header': requestText('POST /events', [json, 'X-A: b\0c'], body),
    'a folded header': requestText('POST /events', [json, 'X-A: b\r\n c\x01'], body),
    'another coding before chunked': requestText(
      'POST /events',
      [json, 'Transfer-Encoding: gzip, chunked'],
      `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`,
    ),
    'identity and chunked': requestText(
      'POST /events',
      [json, 'Transfer-Encoding: identity', chunked],
      `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`,
    ),
    'two content types': requestText('POST /events', [json, json], body),
    'two authorizations': requestText(
      'POST /events',
      [json, 'Authorization: Bearer a', 'Authorization: Bearer b'],
      body,
    ),
    'a request line without a version': 'GET /health/live\r\nHost: g\r\n\r\n',
    'no Host': `POST /events HTTP/1.1\r\n${json}\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    'two Hosts': requestText('POST /events', ['Host: g', 'Host: g', json], body),
    ...Object.fromEntries(
      ['###', 'a b', 'u@h', 'a, b', 'h/x', '', 'h:x', '[::1'].map((host) => [
        `the Host ${JSON.stringify(host)}`,
        requestText('POST /events', [`Host: ${host}`, json], body),
      ]),
    ),
    'no HTTP': 'hello\r\n\r\n',
    'another protocol': 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
    bytes: '\x00\x01\x02\xff\xfe\r\n\r\n',
  };
  for (const [name, text] of Object.entries(cases)) {
    it(`(${name}) gets 400`, () => refusedAndClosed(Buffer.from(text, 'latin1'), 400, 'INVALID_EVENT'));
  }
});

describe('bytes that are malformed', () => {
  it('are answered once, however many more follow', async () => {
    for (let at = 0; at < 30; at += 1) {
      const connection = await open();
      connection.write('BROKEN\r\n\r\n');
      for (let more = 0; more < 5; more += 1) {
        await new Promise((resolve) => setImmediate(resolve));
        if (connection.socket.writable) connection.write('BROKEN TOO\r\n\r\n');
      }
      assertRefused((await replies(connection, 1))[0], 400, 'INVALID_EVENT');
      await connection.untilClosed();
      assert.equal(repliesIn(connection.received).length, 1);
    }
  });

  it('that are empty lines between requests do not keep a connection open', async () => {
    const own = await TestGateway.start(redis, pki, { INGEST_IDLE_TIMEOUT_MS: '1500' });
    const dripped = async (first: string): Promise<void> => {
      const connection = await own.socket(producer);
      connection.write(requestText(`${first} /health/live`));
      await connection.until(/\r\n\r\n/);
      const drip = setInterval(() => connection.socket.write('\r\n'), 50);
      atEnd(() => clearInterval(drip));
      await connection.untilClosed();
      clearInterval(drip);
      assert.equal(connection.received.match(/HTTP\/1\.1/g)?.length, 1);
    };
    await Promise.all([dripped('GET'), dripped('HEAD')]);
  });
});

it('heads of 7 KB in one-byte pieces cost little more than whole ones', async () => {
  const own = await TestGateway.start(redis, pki, {
    INGEST_REQUEST_TIMEOUT_MS: '120000',
  });
  const cpu = (): Promise<number> => own.metric('process_cpu_seconds_total');
  const before = await cpu();
  const text = requestText('GET /health/live', [`X-Long: ${'a'.repeat(7_200)}`]);
  await Promise.all(
    Array.from({ length: 10 }, async () => {
      const connection = await own.socket(producer);
      connection.socket.setNoDelay(true);
      for (const character of text) connection.write(character);
      assert.equal((await replies(connection, 1, 60_000))[0]?.status, 200);
    }),
  );
  assert.ok((await cpu()) - before < 2, `${(await cpu()) - before} s of CPU time`);
});

describe('a flood of headers', () => {
  it('in bytes gets 431', () =>
    refusedAndClosed(requestText('GET /health/live', [`X-A: ${'a'.repeat(40_000)}`]), 431, 'HEADERS_TOO_LARGE'));
  it('in the request target gets 431', () =>
    refusedAndClosed(requestText(`GET /${'a'.repeat(40_000)}`), 431, 'HEADERS_TOO_LARGE'));
  it('in number gets 431', async () => {
    const connection = await open();
    const reply = await askRaw(
      connection,
      requestText(
        'GET /health/live',
        Array.from({ length: 150 }, (_, at) => `X-${at}: a`),
      ),
    );
    assertRefused(reply, 431, 'HEADERS_TOO_LARGE');
  });
});

describe('pipelined requests', () => {
  it('are answered in order, whichever takes longer', async () => {
    const connection = await open();
    const ids = Array.from({ length: 30 }, (_, at) => `p${at}`);
    const texts = ids.map((id, at) => {
      const headers = [`X-Request-Id: ${id}`];
      if (at % 3 === 0) return postText(event(id), headers);
      return at % 3 === 1 ? requestText('GET /nothing', headers) : requestText(`GET /events/p${at - 2}`, headers);
    });
    connection.write(texts.join(''));
    const all = await replies(connection, 30);
    assert.deepEqual(
      all.map(({ headers }) => headers['x-request-id']),
      ids,
    );
    assert.deepEqual(new Set(all.filter((_, at) => at % 3 === 0).map(({ status }) => status)), new Set([202]));
  });

  it('are answered before the parser error that follows', async () => {
    const connection = await open();
    connection.write(`${postText(event('before-garbage'), ['X-Request-Id: good'])}garbage\r\n\r\n`);
    const [good, bad] = await replies(connection, 2);
    assert.deepEqual([good?.status, good?.headers['x-request-id']], [202, 'good']);
    assertRefused(bad, 400, 'INVALID_EVENT');
    await connection.untilClosed();
  });

  it('inside a refused body are not read as requests', async () => {
    await addsNothing(redis, async () => {
      const connection = await open();
      const inner = postText(event('smuggled'));
      connection.write(
        requestText('POST /events', ['Content-Type: text/plain', `Content-Length: ${inner.length}`], inner),
      );
      assertRefused((await replies(connection, 1))[0], 415, 'INVALID_EVENT');
      assert.equal((await askRaw(connection, requestText('GET /health/live'))).status, 200);
      assert.equal(repliesIn(connection.received).length, 2);
    });
  });
});

describe('odd but legal', () => {
  it('CONNECT gets 404, and the connection ends', () =>
    refusedAndClosed('CONNECT example.test:443 HTTP/1.1\r\nHost: example.test\r\n\r\n', 404, 'ROUTE_NOT_FOUND'));

  it('a reset after CONNECT does not disturb the gateway', async () => {
    const connection = await open();
    connection.write('CONNECT example.test:443 HTTP/1.1\r\nHost: example.test\r\n\r\nmore');
    await replies(connection, 1);
    connection.socket.destroy();
    await assertAlive(gateway);
  });

  it('Upgrade is ignored, and nothing after it is read', async () => {
    for (const rest of ['', `Content-Length: 2\r\n\r\n{}`]) {
      const connection = await open();
      const inner = postText(event('behind-an-upgrade'));
      await addsNothing(redis, async () => {
        connection.write(
          `${requestText('GET /health/live', ['Connection: Upgrade', 'Upgrade: h2c'])}POST /events HTTP/1.1\r\nHost: g\r\nContent-Length: ${inner.length}\r\n${rest}\r\n`,
        );
        assert.equal((await replies(connection, 1))[0]?.status, 200);
        connection.write(inner);
        await connection.untilClosed();
      });
      assert.equal(repliesIn(connection.received).length, 1);
    }
  });

  it('a body of a request with Upgrade is read completely', async () => {
    const body = event('upgraded', { pad: 'x'.repeat(10_000) });
    const text = postText(body, ['Connection: Upgrade', 'Upgrade: h2c']);
    const connection = await open();
    connection.write(text.slice(0, 300));
    // The pause makes the rest of the request arrive separately.
    await new Promise((resolve) => setTimeout(resolve, 30));
    connection.write(`${text.slice(300)}GET /health/live HTTP/1.1\r\nHost: g\r\n\r\n`);
    assert.equal((await replies(connection, 1))[0]?.status, 202);
    await connection.untilClosed();
    assert.equal(repliesIn(connection.received).length, 1);
  });

  it('HTTP/1.0 with Transfer-Encoding is answered, and nothing after it is read', async () => {
    const connection = await open();
    const body = event('old-and-chunked');
    connection.write(
      `POST /events HTTP/1.0\r\nHost: g\r\nConnection: keep-alive\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n${requestText('GET /health/live')}`,
    );
    const [reply] = await replies(connection, 1);
    assert.deepEqual([reply?.status, reply?.headers['connection']], [202, 'close']);
    await connection.untilClosed();
    assert.equal(repliesIn(connection.received).length, 1);
  });

  it('an absolute-form target is routed by its path', async () => {
    assert.equal((await askRaw(await open(), requestText('GET https://gateway.test/health/live?x=y'))).status, 200);
    assert.equal((await askRaw(await open(), requestText('OPTIONS *'))).status, 404);
  });

  it('Expect: 100-continue gets 100 or the refusal, after the producer check', async () => {
    const body = event('expected');
    const head = ['Content-Type: application/json', 'Expect: 100-continue', `Content-Length: ${body.length}`];
    const good = await open();
    assert.equal((await askRaw(good, requestText('POST /events', head))).status, 100);
    assert.equal((await askRaw(good, body)).status, 202);

    const nobody = await gateway.socket();
    await addsNothing(redis, async () => {
      nobody.write(requestText('POST /events', head));
      assertRefused((await replies(nobody, 1))[0], 401, 'UNAUTHORIZED_PRODUCER');
      await nobody.untilClosed();
      const tooLarge = await open();
      tooLarge.write(requestText('POST /events', [...head.slice(0, 2), `Content-Length: ${BODY_BYTES_MAX + 1}`]));
      assertRefused((await replies(tooLarge, 1))[0], 413, 'INVALID_EVENT');
    });
  });

  it('HTTP/1.0 is answered, and closed', async () => {
    const connection = await open();
    connection.write('GET /health/live HTTP/1.0\r\n\r\n');
    assert.equal((await replies(connection, 1))[0]?.status, 200);
    await connection.untilClosed();
  });

  it('arbitrary bytes on the TLS port close the connection', async () => {
    for (const bytes of [Buffer.alloc(1_000, 0xff), Buffer.from([0x16, 3, 1, 0xff, 0xff]), Buffer.alloc(70_000)]) {
      const socket = connect(gateway.port, '127.0.0.1');
      atEnd(() => void socket.destroy());
      socket.on('error', () => undefined);
      socket.end(bytes);
      await new Promise((resolve) => socket.resume().once('close', resolve));
    }
    await assertAlive(gateway);
  });
});

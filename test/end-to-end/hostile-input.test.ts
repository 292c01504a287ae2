// test/contract/responses.test.ts provokes each documented refusal. These cases are about the connection afterwards.
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { describe, it } from 'node:test';
import { fileGateway } from '../support/file-gateway.ts';
import { event, TestGateway, type RawConnection } from '../support/gateway.ts';
import { atEnd } from '../support/scope.ts';
import { addsNothing, assertAlive } from '../support/verdicts.ts';
import { askRaw, postText, replies, repliesIn, requestText, type WireReply } from '../support/wire.ts';

const BODY_BYTES_MAX = 20_000;

const { redis, gateway, producer, pki } = await fileGateway({ INGEST_BODY_BYTES_MAX: String(BODY_BYTES_MAX) });

const open = (to = gateway): Promise<RawConnection> => to.socket(producer);

const JSON_TYPE = 'Content-Type: application/json';
const CHUNKED = 'Transfer-Encoding: chunked';

function assertRefused(reply: WireReply | undefined, status: number, code: string): void {
  assert.equal(reply?.status, status, JSON.stringify(reply));
  assert.equal((JSON.parse(reply.body) as { code: string }).code, code);
}

async function refusedAndClosed(text: string, status: number, code: string, by = gateway): Promise<void> {
  await addsNothing(redis, async () => {
    const connection = await open(by);
    connection.write(text);
    assertRefused((await replies(connection, 1))[0], status, code);
    await connection.untilClosed();
    assert.equal(repliesIn(connection.received).length, 1);
    assert.equal(repliesIn(connection.received)[0]?.headers['connection'], 'close');
  });
}

/** Writes the text again and again until the connection closes or the test ends. */
function drip(connection: RawConnection, text: string, everyMs: number): void {
  const timer = setInterval(() => connection.socket.writable && connection.socket.write(text), everyMs);
  connection.socket.once('close', () => clearInterval(timer));
  atEnd(() => clearInterval(timer));
}

it('a slow client gets 408, one that sends nothing no answer, and empty lines keep no connection open', async () => {
  const hurried = await TestGateway.start(redis, pki, {
    ...{ INGEST_ENQUEUE_TIMEOUT_MS: '1000', INGEST_REQUEST_TIMEOUT_MS: '2000', INGEST_IDLE_TIMEOUT_MS: '1500' },
  });
  const slowHead = async (): Promise<void> => {
    const connection = await open(hurried);
    connection.write('POST /events HTTP/1.1\r\n');
    drip(connection, 'X-A: b\r\n', 100);
    assertRefused((await replies(connection, 1))[0], 408, 'REQUEST_TIMEOUT');
    await connection.untilClosed();
  };
  const silent = async (): Promise<void> => {
    const connection = await hurried.socket();
    await connection.untilClosed();
    assert.equal(connection.received, '');
  };
  const emptyLines = async (first: string): Promise<void> => {
    const connection = await open(hurried);
    connection.write(requestText(`${first} /health/live`));
    await connection.until(/\r\n\r\n/);
    drip(connection, '\r\n', 50);
    await connection.untilClosed();
    assert.equal(connection.received.match(/HTTP\/1\.1/g)?.length, 1);
  };
  const slowChunks = requestText('POST /events', [JSON_TYPE, CHUNKED], '1\r\n{\r\n');
  await Promise.all([
    ...[slowHead(), silent(), emptyLines('GET'), emptyLines('HEAD')],
    refusedAndClosed(slowChunks, 408, 'REQUEST_TIMEOUT', hurried),
  ]);
  await assertAlive(hurried);
});

describe('broken framing gets 400, and nothing after it is read', () => {
  const body = event('smuggled');
  const chunks = `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;
  const length = `Content-Length: ${body.length}`;
  const cases: Readonly<Record<string, readonly [fields: readonly string[], body: string]>> = {
    'a chunk size that is not a number': [[CHUNKED], `zz\r\n${body}\r\n0\r\n\r\n`],
    'a chunk size past 64 bits': [[CHUNKED], `fffffffffffffffff\r\n${body}\r\n0\r\n\r\n`],
    'a chunk longer than its size': [[CHUNKED], `2\r\n${body}\r\n0\r\n\r\n`],
    'both lengths': [[CHUNKED, length], chunks],
    'both lengths, the other way round': [[length, CHUNKED], chunks],
    'two content lengths': [['Content-Length: 5', length], body],
    'a negative content length': [['Content-Length: -1'], body],
    'chunked not last': [['Transfer-Encoding: chunked, identity'], chunks],
    'another coding before chunked': [['Transfer-Encoding: gzip, chunked'], chunks],
    'identity and chunked': [['Transfer-Encoding: identity', CHUNKED], chunks],
    'a space before the colon': [['Broken : x'], body],
    'a NUL in a header': [['X-A: b\0c'], body],
    'a folded header': [['X-A: b\r\n c\x01'], body],
    'two content types': [[JSON_TYPE], body],
    'two authorizations': [['Authorization: Bearer a', 'Authorization: Bearer b'], body],
    'two Hosts': [['Host: g', 'Host: g'], body],
    ...Object.fromEntries(
      ['###', 'a b', 'u@h', 'a, b', 'h/x', '', 'h:x', '[::1'].map((host) => [
        `the Host ${JSON.stringify(host)}`,
        [[`Host: ${host}`], body],
      ]),
    ),
  };
  for (const [name, [fields, sent]] of Object.entries(cases))
    it(name, () => refusedAndClosed(requestText('POST /events', [JSON_TYPE, ...fields], sent), 400, 'INVALID_EVENT'));

  for (const text of [
    'GET /health/live\r\nHost: g\r\n\r\n',
    `POST /events HTTP/1.1\r\n${JSON_TYPE}\r\n${length}\r\n\r\n${body}`,
    '\x00\x01\x02\xff\xfe\r\n\r\n',
    'BROKEN\r\n\r\n'.repeat(6),
    requestText('GET /events/a', [CHUNKED], 'zz\r\n'),
  ])
    it(JSON.stringify(text), () => refusedAndClosed(text, 400, 'INVALID_EVENT'));
});

it('heads of 7 KB in one-byte pieces cost little more than whole ones', async () => {
  const patient = await TestGateway.start(redis, pki, { INGEST_REQUEST_TIMEOUT_MS: '120000' });
  const before = await patient.metric('process_cpu_seconds_total');
  const text = requestText('GET /health/live', [`X-Long: ${'a'.repeat(7_200)}`]);
  await Promise.all(
    Array.from({ length: 10 }, async () => {
      const connection = await open(patient);
      connection.socket.setNoDelay(true);
      for (const character of text) connection.write(character);
      assert.equal((await replies(connection, 1, 60_000))[0]?.status, 200);
    }),
  );
  const spent = (await patient.metric('process_cpu_seconds_total')) - before;
  assert.ok(spent < 2, `${spent} s of CPU time`);
});

describe('pipelined requests', () => {
  it('inside a refused body are not read as requests', async () => {
    await addsNothing(redis, async () => {
      const connection = await open();
      connection.write(requestText('POST /events', ['Content-Type: text/plain'], postText(event('smuggled'))));
      assertRefused((await replies(connection, 1))[0], 415, 'INVALID_EVENT');
      assert.equal((await askRaw(connection, requestText('GET /health/live'))).status, 200);
      assert.equal(repliesIn(connection.received).length, 2);
    });
  });
});

describe('odd but legal', () => {
  it('Upgrade is ignored: its body is read completely, and nothing after it', async () => {
    const upgrade = ['Connection: Upgrade', 'Upgrade: h2c'];
    for (const [text, status] of [
      [requestText('GET /health/live', upgrade), 200],
      [postText(event('upgraded', { pad: 'x'.repeat(10_000) }), upgrade), 202],
    ] as const) {
      const connection = await open();
      connection.write(text.slice(0, 300));
      await new Promise((resolve) => setImmediate(resolve));
      connection.write(`${text.slice(300)}${postText(event('after-an-upgrade'))}`);
      assert.equal((await replies(connection, 1))[0]?.status, status);
      await connection.untilClosed();
      assert.equal(repliesIn(connection.received).length, 1);
    }
    assert.equal((await gateway.client(producer).find('after-an-upgrade')).status, 404);
  });

  it('a broken body after an Upgrade ends with the client, before the request times out', async () => {
    const connection = await open();
    const fields = [JSON_TYPE, CHUNKED, 'Connection: Upgrade', 'Upgrade: h2c'];
    connection.socket.end(requestText('POST /events', fields, 'zz\r\n'));
    await connection.untilClosed(8_000);
    assert.doesNotMatch(connection.received, / 202 /);
  });

  it('HTTP/1.0 is answered and closed, and nothing after a chunked body is read', async () => {
    const body = event('old-and-chunked');
    const chunked = requestText('POST /events', [JSON_TYPE, CHUNKED, 'Connection: keep-alive']).replace('1.1', '1.0');
    for (const [text, status] of [
      ['GET /health/live HTTP/1.0\r\n\r\n', 200],
      [`${chunked}${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n${requestText('GET /health/live')}`, 202],
    ] as const) {
      const connection = await open();
      connection.write(text);
      const [reply] = await replies(connection, 1);
      assert.deepEqual([reply?.status, reply?.headers['connection']], [status, 'close']);
      await connection.untilClosed();
      assert.equal(repliesIn(connection.received).length, 1);
    }
  });

  it('Expect: 100-continue gets 100 or the refusal, after the producer check', async () => {
    const body = event('expected');
    const expecting = (bytes: number): string =>
      requestText('POST /events', [JSON_TYPE, 'Expect: 100-continue', `Content-Length: ${bytes}`]);
    const good = await open();
    assert.equal((await askRaw(good, expecting(body.length))).status, 100);
    assert.equal((await askRaw(good, body)).status, 202);
    await addsNothing(redis, async () => {
      assertRefused(await askRaw(await gateway.socket(), expecting(body.length)), 401, 'UNAUTHORIZED_PRODUCER');
      assertRefused(await askRaw(await open(), expecting(BODY_BYTES_MAX + 1)), 413, 'INVALID_EVENT');
    });
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

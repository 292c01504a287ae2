// The gateway reads plain requests itself and leaves all others to node:http. A client must not notice a difference.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { connect } from 'node:tls';
import { gzipSync } from 'node:zlib';
import { event, RawConnection, tlsOptions } from '../support/client.ts';
import { gatewayInProcess } from '../support/gateway-in-process.ts';
import { Pki, type ClientCertificate } from '../support/pki.ts';
import { askRaw, postText, replies, repliesIn, requestText, type WireReply } from '../support/wire.ts';

const pki = await Pki.create();
const producer = await pki.producer('one');
const { lines, port } = await gatewayInProcess(pki, {
  INGEST_BODY_BYTES_MAX: '100000',
  INGEST_REQUEST_TIMEOUT_MS: '1200000',
  INGEST_IDLE_TIMEOUT_MS: '600000',
});

/** All numbers have four digits, so that the answers have the same length. */
let events = 1_000;
const fresh = (more: Readonly<Record<string, unknown>> = {}): string => event(`two-readers-${(events += 1)}`, more);

const open = (certificate: ClientCertificate | undefined = producer): RawConnection =>
  new RawConnection(connect({ port, host: '127.0.0.1', ...tlsOptions(pki.authority.certificate, certificate, {}) }));

/** Opens a connection that node:http reads, because HEAD is not plain. */
async function nodeConnection(): Promise<RawConnection> {
  const connection = open();
  connection.write(requestText('HEAD /health/live'));
  assert.match(await connection.until(/\r\n\r\n$/), /^HTTP\/1\.1 200 /);
  connection.received = '';
  return connection;
}

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

function comparable({ status, headers, body }: WireReply): unknown {
  const { date, 'x-request-id': requestId = '', ...rest } = headers;
  assert.notEqual(status, 408, 'less was sent than the head announced');
  assert.ok(date !== undefined && Math.abs(Date.parse(date) - Date.now()) < 60_000);
  const echoed = requestId.replace(UUID, 'UUID');
  return { status, rest, body: body.replaceAll(/two-readers-\d+/g, 'ID'), echoed };
}

const postCoded = (body: Buffer): string =>
  postText(body.toString('latin1'), ['Content-Encoding: gzip', `Content-Length: ${body.length}`]);

describe('both readers answer alike', () => {
  const named = (count: number): string[] => Array.from({ length: count }, (_, at) => `X-${at}: a`);
  const BINARY = [
    'ce-specversion: 1.0',
    'CE-Source: %2Fa',
    'ce-type: test.event',
    'ce-note:\t"a b" ',
    'Content-Type: a/b',
  ];
  const EVENTS: readonly (() => string)[] = [
    () => postText(fresh()),
    // The socket writes each character as one byte, so the text must have a character for each byte of UTF-8.
    () => Buffer.from(postText(fresh().replace('two-readers', 'zwölf-ßü-✓-two-readers'))).toString('latin1'),
    () => requestText('POST /events', [...BINARY, `ce-id: two-readers-${(events += 1)}`], 'hello'),
    () => postText(fresh(), ['ce: 1', 'cement: 2', 'c-e: 3']),
    () => postText(fresh(), ['Traceparent:\t00-a', 'tracestate: a=1', 'TraceState: b=2']),
    () => postText(fresh(), [`X-Long: ${'a'.repeat(5_000)}`]),
    () => postText(fresh({ data: 'x'.repeat(90_000) })),
    () => postText(fresh({ data: 'x'.repeat(100_000) })),
    () => postText('{"id":1}'),
    () => requestText('POST /events', ['Content-Type: application/json']),
    () => postCoded(gzipSync(fresh())),
    () => postCoded(gzipSync(fresh()).subarray(0, 30)),
    () => requestText('GET /events/nothing'),
    () => requestText('POST /event', [], 'x'.repeat(1_000)),
    () => requestText('GET /health/live?a=b'),
    ...[99, 100].map((count) => () => requestText('GET /health/live', named(count))),
  ];
  const put = (head: string, body = ''): string => `${head}\r\n\r\n${body}`;
  const post = (line: string, fields: readonly string[], body = fresh()): string =>
    put(
      [line, 'Host: g', 'Content-Type: application/json', `Content-Length: ${Buffer.byteLength(body)}`, ...fields].join(
        '\r\n',
      ),
      body,
    );
  const LINES = [
    ...'GET PUT PATCH DELETE OPTIONS TRACE post Post PROPFIND M-SEARCH QUERY BREW'
      .split(' ')
      .map((method) => `${method} /events HTTP/1.1`),
    ...['HTTP/1.0', 'HTTP/0.9', 'HTTP/1.2', 'HTTP/2.0', 'HTTP/1.1 ', 'http/1.1', 'HTTP/11', 'HTCPCP/1.0', ''].map(
      (version) => `POST /events ${version}`,
    ),
    ...`/ //events /events/ /events// /./events /x/../events /%65vents /events%2F /EVENTS /events? /events?a=b /events#a
      /events;a=b /events/%00 /events/% /events/%zz /events/a%2Fb /events/é * events https://g/events http://other/events
      https://g/ g:443 /health /health/live/ /health/../metrics /metrics /metrics?x \\events`
      .split(/\s+/)
      .concat('/events\t', '/events\x7f', '/events\x01', `/events/${'a'.repeat(300)}`)
      .map((target) => `POST ${target} HTTP/1.1`),
    'POST  /events HTTP/1.1',
    'POST\t/events HTTP/1.1',
    ' POST /events HTTP/1.1',
    'POST /events  HTTP/1.1',
    'POST /events',
    'POST',
    'POST /events HTTP/1.1 x',
  ];
  /** Values of fields, separated by bars. Each is sent with a request that is otherwise plain. */
  const VALUES: Readonly<Record<string, string>> = {
    Connection: 'close|keep-alive|CLOSE|close, x|x, close|keep-alive, close|upgrade||,|"close"',
    Upgrade: 'h2c|websocket',
    Expect: '200-ok|',
    Host: 'g|other||a b',
    'Content-Length': '1|0|+10|-1|0x10|1e1|10 10||99999999999999999999',
    'Transfer-Encoding': 'chunked|identity|gzip|gzip, chunked|chunked, chunked|xchunked||\tchunked|"chunked"',
    'Transfer-Encoding ': 'chunked',
    'Content-Type': 'application/json|text/plain',
    'Content-Encoding': 'identity|IDENTITY|br|identity, gzip|x-gzip, , identity|gzip\xa0',
    'X-Request-Id': `|a, b|é|${'a'.repeat(129)}|a\x01`,
    traceparent: '|00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    tracestate: ',',
    Authorization: '|Bearer|Bearer a.b.c|Basic YTpi',
    X: `b\rY: c|b\nY: c|\x00|\x7f|é||\t |b|${'a'.repeat(15_000)}|${'a'.repeat(17_000)}`,
    'Keep-Alive': 'timeout=1',
    'HTTP2-Settings': 'AAMAAABk',
    'Proxy-Connection': 'close',
    TE: 'trailers',
    Trailer: 'X-A',
    Range: 'bytes=0-1',
    'X-HTTP-Method-Override': 'DELETE',
    'ce-id': 'x',
    'ce-specversion': '1.0',
  };
  const NAMES = ['X A', '', 'X-A ', '\tX', ' X', 'x"y', 'X@', '(X)', 'X\u00e9', 'X'.repeat(300), 'Cookie', 'Forwarded'];
  const FIELDS: readonly (readonly string[])[] = [
    ...Object.entries(VALUES).flatMap(([name, values]) => values.split('|').map((value) => [`${name}: ${value}`])),
    ...NAMES.map((name) => [`${name}: b`]),
    ['X'],
    ['X:b'],
    ['X-Request-Id: a', 'X-Request-Id: b'],
    ['Content-Type: application/json', 'Content-Type: text/plain'],
    ['Connection: close', 'Connection: keep-alive'],
    ['Authorization: Bearer a', 'Authorization: Bearer b'],
    ['Content-Encoding: identity', 'Content-Encoding: gzip'],
    ['Transfer-Encoding: chunked', 'Transfer-Encoding: chunked'],
  ];
  const CHUNKED = [
    'POST /events HTTP/1.1',
    'Host: g',
    'Content-Type: application/json',
    'Transfer-Encoding: chunked',
  ].join('\r\n');
  const chunk = (text: string, end = '\r\n', extension = ''): string =>
    `${Buffer.byteLength(text).toString(16)}${extension}${end}${text}${end}`;
  const CHUNKS: readonly ((body: string) => string)[] = [
    (body) => `${chunk(body)}0\r\n\r\n`,
    (body) => `${chunk(body.slice(0, 5))}${chunk(body.slice(5))}0\r\n\r\n`,
    (body) => `${chunk(body, '\r\n', ';a=b')}0\r\n\r\n`,
    (body) => `${chunk(body, '\r\n', ';a="b;c"')}0;x\r\n\r\n`,
    (body) => `000${chunk(body)}000\r\n\r\n`,
    (body) => `${chunk(body)}0\r\nX-A: b\r\n\r\n`,
    () => '0\r\n\r\n',
    () => 'x\r\n\r\n',
    () => '-1\r\n\r\n',
    () => '0x1\r\na\r\n0\r\n\r\n',
    () => 'fffffffffffffffff\r\n',
    () => '1\r\nab\r\n0\r\n\r\n',
    () => ' 1\r\na\r\n0\r\n\r\n',
    (body) => `${chunk(body, '\n')}0\n\n`,
  ];
  /** The cases share these connections until a case closes them. */
  let pair: [RawConnection, RawConnection] | undefined;
  for (const [name, texts] of Object.entries({
    'to events and other requests': EVENTS,
    'to request lines': LINES.map((line) => () => post(line, [])),
    'to fields': FIELDS.map((fields) => () => post('POST /events HTTP/1.1', fields)),
    'to chunks': CHUNKS.map((chunks) => () => put(CHUNKED, chunks(fresh()))),
  }))
    it(name, async () => {
      for (const text of texts) {
        const [direct, node] = (pair ??= [open(), await nodeConnection()]);
        for (const connection of pair) connection.received = '';
        const sent = text();
        const [one, other] = [await askRaw(direct, sent), await askRaw(node, text())];
        assert.deepEqual(comparable(one), comparable(other), sent.slice(0, 200));
        // Either both connections serve the next request, or both close.
        if (repliesIn(node.received)[0]?.headers['connection'] === 'close') {
          pair = undefined;
          await Promise.all([direct.untilClosed(), node.untilClosed()]);
        } else for (const connection of pair) assert.equal((await askRaw(connection, postText(fresh()))).status, 202);
      }
    });

  it('to an event without a certificate', async () => {
    const bare = (): RawConnection =>
      new RawConnection(connect({ port, host: '127.0.0.1', ca: pki.authority.certificate }));
    const one = await askRaw(bare(), postText(fresh()));
    const other = await askRaw(bare(), postText(fresh(), ['Content-Encoding: identity']));
    assert.deepEqual([one.status, one.headers['connection']], [401, 'close']);
    assert.deepEqual(comparable(one), comparable(other));
  });
});

describe('an X-Request-Id', () => {
  const LEGAL = ['a b', 'a\tb  c', 'a, b', '"', 'x'.repeat(7_000), '\x80\xff', 'é\xa0é', '{"a":1}', '%00'];
  const bytes = Array.from({ length: 0x100 - 0x21 }, (_, at) => String.fromCharCode(0x21 + at)).filter(
    (one) => one !== '\x7f',
  );

  it('is echoed byte for byte by both readers, or replaced with a UUID if it is missing, empty or repeated', async () => {
    for (const connection of [open(), await nodeConnection()]) {
      for (const id of [...LEGAL, bytes.join('')])
        for (const text of [
          postText(fresh(), [`X-Request-Id: ${id}`]),
          requestText('GET /nothing', [`X-Request-Id:\t${id} `]),
        ]) {
          connection.received = '';
          assert.equal((await askRaw(connection, text)).headers['x-request-id'], id);
        }
      for (const fields of [[], ['X-Request-Id:'], ['X-Request-Id: \t'], ['X-Request-Id: a', 'x-request-id: a']]) {
        connection.received = '';
        assert.match((await askRaw(connection, postText(fresh(), fields))).headers['x-request-id'] ?? '', UUID);
      }
    }
  });

  it('is escaped and cut at 256 characters in logs', async () => {
    await askRaw(open(), postText(fresh(), [`X-Request-Id: \xe9\t${'x'.repeat(300)}`]));
    const line = lines.findLast(({ msg }) => msg === 'request answered');
    assert.equal(line?.['requestId'], `\\xe9\\x09${'x'.repeat(254)}`);
  });
});

it('Expect: 100-continue gets 100 or the refusal, after the producer check', async () => {
  const body = fresh();
  const expecting = (bytes: number): string => postText('', ['Expect: 100-continue', `Content-Length: ${bytes}`]);
  const good = open();
  assert.equal((await askRaw(good, expecting(body.length))).status, 100);
  assert.equal((await askRaw(good, body)).status, 202);
  assert.equal((await askRaw(open(), expecting(100_001))).status, 413);
  const bare = new RawConnection(connect({ port, host: '127.0.0.1', ca: pki.authority.certificate }));
  assert.equal((await askRaw(bare, expecting(body.length))).status, 401);
});

it('a broken body after an Upgrade ends with the client, before the request times out', async () => {
  const connection = open();
  const fields = ['Content-Type: a/b', 'Transfer-Encoding: chunked', 'Connection: Upgrade', 'Upgrade: h2c'];
  connection.socket.end(requestText('POST /events', fields, 'zz\r\n'));
  await connection.untilClosed(8_000);
  assert.doesNotMatch(connection.received, / 202 /);
});

it('requests of both kinds in one write are answered in order', async () => {
  const connection = open();
  const json = 'Content-Type: application/json';
  const body = fresh();
  const chunks = `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;
  const texts = [
    postText(fresh(), ['X-Request-Id: 0']),
    requestText('GET /health/live', ['X-Request-Id: 1']),
    postText('no event', ['X-Request-Id: 2']),
    postText(fresh(), ['X-Request-Id: 3', 'Expect: 100-continue']),
    requestText('PUT /events', ['X-Request-Id: 4']),
    postText(fresh(), ['X-Request-Id: 5']),
    requestText('POST /events', [json, 'X-Request-Id: 6', 'Transfer-Encoding: chunked'], chunks),
    postText(fresh(), ['X-Request-Id: 7']),
  ];
  connection.write(texts.join(''));
  const all = (await replies(connection, texts.length + 1)).filter(({ status }) => status !== 100);
  assert.deepEqual(
    all.map(({ status, headers }) => [status, headers['x-request-id']]),
    [202, 200, 400, 202, 405, 202, 202, 202].map((status, at) => [status, String(at)]),
  );
});

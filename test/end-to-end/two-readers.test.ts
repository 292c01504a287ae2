// The gateway reads plain requests itself and leaves all others to node:http. A client must not notice a difference.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { connect } from 'node:tls';
import { gzipSync } from 'node:zlib';
import { fileGateway } from '../support/file-gateway.ts';
import { RawConnection, tlsOptions } from '../support/client.ts';
import { gatewayInProcess } from '../support/gateway-in-process.ts';
import { event } from '../support/gateway.ts';
import type { ClientCertificate } from '../support/pki.ts';
import { askRaw, postText, replies, repliesIn, requestText, type WireReply } from '../support/wire.ts';

const { gateway, producer, pki } = await fileGateway({
  INGEST_BODY_BYTES_MAX: '100000',
  INGEST_REQUEST_TIMEOUT_MS: '1200000',
  INGEST_IDLE_TIMEOUT_MS: '600000',
});

const ids = new Set<string>();
function fresh(more: Readonly<Record<string, unknown>> = {}): string {
  const id = `two-readers-${ids.size}`;
  ids.add(id);
  return event(id, more);
}

/** Opens a connection that node:http reads, because HEAD is not plain. */
async function nodeConnection(certificate: ClientCertificate | undefined = producer): Promise<RawConnection> {
  const connection = await gateway.socket(certificate);
  assert.equal((await headRequest(connection)).status, 200);
  return connection;
}

async function headRequest(connection: RawConnection): Promise<{ status: number }> {
  connection.write(requestText('HEAD /health/live'));
  const text = await connection.until(/\r\n\r\n$/);
  connection.received = '';
  return { status: Number(text.slice(9, 12)) };
}

function comparable({ status, headers, body }: WireReply): unknown {
  const { date, 'x-request-id': requestId = '', ...rest } = headers;
  assert.notEqual(status, 408, 'less was sent than the head announced');
  assert.ok(date !== undefined && Math.abs(Date.parse(date) - Date.now()) < 60_000);
  const echoed = requestId.replace(UUID, 'UUID');
  return { status, rest, body: body.replaceAll(/two-readers-\d+/g, 'ID'), echoed };
}

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

const postCoded = (coding: string, body: Buffer): string =>
  postText(body.toString('latin1'), [`Content-Encoding: ${coding}`, `Content-Length: ${body.length}`]);

describe('both readers answer alike', () => {
  const cases: Readonly<Record<string, () => string>> = {
    'an event': () => postText(fresh()),
    'an event with a request id': () => postText(fresh(), ['X-Request-Id: mine']),
    'an event with a request id that is none': () => postText(fresh(), ['X-Request-Id: not mine']),
    // The socket writes each character as one byte, so the text must have a character for each byte of UTF-8.
    'an event with an id beyond ASCII': () =>
      Buffer.from(postText(fresh().replace('two-readers', 'zwölf-ßü-✓-two-readers'))).toString('latin1'),
    'a CloudEvent in binary mode': () => {
      const { id } = JSON.parse(fresh()) as { id: string };
      const fields = [
        'ce-specversion: 1.0',
        `ce-id: ${id}`,
        'CE-Source: %2Fa',
        'ce-type: test.event',
        'ce-note:\t"a b" ',
      ];
      return requestText('POST /events', [...fields, 'Content-Type: text/plain'], 'hello');
    },
    'a field that only begins like one of a CloudEvent': () => postText(fresh(), ['ce: 1', 'cement: 2', 'c-e: 3']),
    'an event in a trace': () => postText(fresh(), ['Traceparent:\t00-a', 'tracestate: a=1', 'TraceState: b=2']),
    'an event behind a head of 5,000 bytes': () => postText(fresh(), [`X-Long: ${'a'.repeat(5_000)}`]),
    'an event of 90,000 bytes': () => postText(fresh({ data: 'x'.repeat(90_000) })),
    'no event': () => postText('{"id":1}'),
    'no body': () => requestText('POST /events', ['Content-Type: application/json', 'Content-Length: 0']),
    'no body and no length': () => requestText('POST /events', ['Content-Type: application/json']),
    'a compressed event': () => postCoded('gzip', gzipSync(fresh())),
    'half of a compressed event': () => postCoded('gzip', gzipSync(fresh()).subarray(0, 30)),
    'a body over the limit': () => postText(fresh({ data: 'x'.repeat(100_000) })),
    'a look-up of nothing': () => requestText('GET /events/nothing'),
    'a wrong method': () => requestText('GET /events'),
    'a wrong path with a body': () => requestText('POST /event', [], 'x'.repeat(1_000)),
    'a query': () => requestText('GET /health/live?a=b'),
    liveness: () => requestText('GET /health/live'),
    '100 fields': () =>
      requestText(
        'GET /health/live',
        Array.from({ length: 99 }, (_, at) => `X-${at}: a`),
      ),
    '101 fields': () =>
      requestText(
        'GET /health/live',
        Array.from({ length: 100 }, (_, at) => `X-${at}: a`),
      ),
  };
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
  const generated: Readonly<Record<string, () => string>> = {
    ...Object.fromEntries(
      LINES.map((line) => [`the request line ${JSON.stringify(line).slice(0, 80)}`, () => post(line, [])]),
    ),
    ...Object.fromEntries(
      FIELDS.map((fields) => [
        `with ${JSON.stringify(fields).slice(0, 80)}`,
        () => post('POST /events HTTP/1.1', fields),
      ]),
    ),
    ...Object.fromEntries(CHUNKS.map((chunks, at) => [`chunks, ${at}`, () => put(CHUNKED, chunks(fresh()))])),
  };

  /** The cases share these connections until a case closes them. */
  let pair: [RawConnection, RawConnection] | undefined;
  for (const [name, text] of Object.entries({ ...cases, ...generated })) {
    it(name, async () => {
      const [direct, node] = (pair ??= [await gateway.socket(producer), await nodeConnection()]);
      for (const connection of pair) connection.received = '';
      assert.deepEqual(comparable(await askRaw(direct, text())), comparable(await askRaw(node, text())));
      // Either both connections serve the next request, or both close.
      if (repliesIn(node.received)[0]?.headers['connection'] === 'close') {
        pair = undefined;
        await Promise.all([direct.untilClosed(), node.untilClosed()]);
      } else {
        assert.equal((await askRaw(direct, postText(fresh()))).status, 202);
        assert.equal((await askRaw(node, postText(fresh()))).status, 202);
      }
    });
  }

  it('without a certificate', async () => {
    const [direct, node] = [await gateway.socket(), await gateway.socket()];
    const answers = [
      await askRaw(direct, postText(fresh())),
      await askRaw(node, postText(fresh(), ['Content-Encoding: identity'])),
    ];
    assert.deepEqual(comparable(answers[0] as WireReply), comparable(answers[1] as WireReply));
    assert.equal(answers[0]?.headers['connection'], 'close');
  });
});

describe('an X-Request-Id', () => {
  const LEGAL = ['a b', 'a\tb  c', 'a, b', '"', 'x'.repeat(7_000), '\x80\xff', 'é\xa0é', '{"a":1}', '%00'];
  const bytes = Array.from({ length: 0x100 - 0x21 }, (_, at) => String.fromCharCode(0x21 + at)).filter(
    (one) => one !== '\x7f',
  );

  it('is echoed byte for byte on both ways', async () => {
    for (const connection of [await gateway.socket(producer), await nodeConnection()])
      for (const id of [...LEGAL, bytes.join('')]) {
        const line = requestText('GET /nothing', [`X-Request-Id:\t${id} `]);
        for (const text of [postText(fresh(), [`X-Request-Id: ${id}`]), line]) {
          connection.received = '';
          assert.equal((await askRaw(connection, text)).headers['x-request-id'], id);
        }
      }
  });

  it('that is missing, empty or repeated is replaced with a UUID', async () => {
    for (const connection of [await gateway.socket(producer), await nodeConnection()])
      for (const fields of [[], ['X-Request-Id:'], ['X-Request-Id: \t'], ['X-Request-Id: a', 'x-request-id: a']]) {
        connection.received = '';
        assert.match((await askRaw(connection, postText(fresh(), fields))).headers['x-request-id'] ?? '', UUID);
      }
  });

  it('is escaped and cut at 256 characters in logs', async () => {
    const { lines, port } = await gatewayInProcess(pki);
    const connection = new RawConnection(
      connect({ port, host: '127.0.0.1', ...tlsOptions(pki.authority.certificate, producer, {}) }),
    );
    await askRaw(connection, postText(fresh(), [`X-Request-Id: \xe9\t${'x'.repeat(300)}`]));
    const line = lines.find(({ msg }) => msg === 'request answered');
    assert.equal(line?.['requestId'], `\\xe9\\x09${'x'.repeat(254)}`);
  });
});

it('Expect: 100-continue gets 100 or the refusal, after the producer check', async () => {
  const body = fresh();
  const expecting = (bytes: number): string => postText('', ['Expect: 100-continue', `Content-Length: ${bytes}`]);
  const good = await gateway.socket(producer);
  assert.equal((await askRaw(good, expecting(body.length))).status, 100);
  assert.equal((await askRaw(good, body)).status, 202);
  for (const [certificate, bytes, status] of [
    [undefined, body.length, 401],
    [producer, 100_001, 413],
  ] as const)
    assert.equal((await askRaw(await gateway.socket(certificate), expecting(bytes))).status, status);
});

it('a broken body after an Upgrade ends with the client, before the request times out', async () => {
  const connection = await gateway.socket(producer);
  const fields = [
    'Content-Type: application/json',
    'Transfer-Encoding: chunked',
    'Connection: Upgrade',
    'Upgrade: h2c',
  ];
  connection.socket.end(requestText('POST /events', fields, 'zz\r\n'));
  await connection.untilClosed(8_000);
  assert.doesNotMatch(connection.received, / 202 /);
});

describe('requests of both kinds on one connection', () => {
  it('in one write are answered in order', async () => {
    const connection = await gateway.socket(producer);
    const texts = [
      postText(fresh(), ['X-Request-Id: 0']),
      requestText('GET /health/live', ['X-Request-Id: 1']),
      postText('no event', ['X-Request-Id: 2']),
      postText(fresh(), ['X-Request-Id: 3', 'Expect: 100-continue']),
      requestText('PUT /events', ['X-Request-Id: 4']),
      postText(fresh(), ['X-Request-Id: 5']),
      `POST /events HTTP/1.1\r\nHost: g\r\nContent-Type: application/json\r\nX-Request-Id: 6\r\nTransfer-Encoding: chunked\r\n\r\n${chunked(fresh())}`,
      postText(fresh(), ['X-Request-Id: 7']),
    ];
    connection.write(texts.join(''));
    const all = (await replies(connection, texts.length + 1)).filter(({ status }) => status !== 100);
    assert.deepEqual(
      all.map(({ headers }) => headers['x-request-id']),
      texts.map((_, at) => String(at)),
    );
    assert.deepEqual(
      all.map(({ status }) => status),
      [202, 200, 400, 202, 405, 202, 202, 202],
    );
  });
});

function chunked(body: string): string {
  const half = Math.floor(body.length / 2);
  return [body.slice(0, half), body.slice(half), '']
    .map((part) => `${part.length.toString(16)}\r\n${part}\r\n`)
    .join('');
}

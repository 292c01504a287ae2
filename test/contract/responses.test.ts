// Provokes every documented response and compares it with the API file. A test fails if an answer is not documented,
// and the last test fails if a documented response was never seen.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, it } from 'node:test';
import { erasedBody } from '../../lib/ingest/erased.ts';
import { createSqliteWarehouse } from '../../lib/sqlite/warehouse.ts';
import { fileGateway } from '../support/file-gateway.ts';
import { OTHER_PATHS, PATHS, scopeOf, UNREADABLE } from '../support/api-file.ts';
import { event, TestGateway, type Ask, type RawConnection, type TestClient } from '../support/gateway.ts';
import { Pki, type ClientCertificate } from '../support/pki.ts';
import { freePort } from '../support/redis.ts';
import { eventually, temporaryFolder } from '../support/scope.ts';
import { jwks, TokenIssuer } from '../support/tokens.ts';
import { firstResponse, Transcript, type Seen } from '../support/transcript.ts';
import { describeProducerContract, type ContractGateway } from './producers.ts';

const BODY_BYTES_MAX = 4_096;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const ECHOED = ['!', '~'.repeat(1_000), 'checkout/7:a=b;c"d,e', 'two words', 'caf\u00e9'];
const REPLACED = ['', ' '];

const transcript = new Transcript();

const env = { INGEST_BODY_BYTES_MAX: String(BODY_BYTES_MAX), INGEST_IN_FLIGHT_MAX: '1' };
const { redis, pki, producer, gateway, client: one } = await fileGateway(env);

/** A gateway with a warehouse, and with producers of which some are limited. `one` may send only test events. */
const warehousePath = join(temporaryFolder(), 'warehouse.db');
const warehouse = createSqliteWarehouse({ path: warehousePath });
await warehouse.prepare();
const producersPath = join(temporaryFolder(), 'producers.json');
const [disabled, limited, limitedToo] = await Promise.all(
  ['disabled', 'limited', 'limited-too'].map((name) => pki.producer(name)),
);
const rates = { rate: 0.001, lookUpRate: 0.001 };
const limits = { one: { types: ['test.*'] }, disabled: { disabled: 'for now' }, limited: rates, 'limited-too': rates };
const producers = Object.fromEntries(
  Object.entries(limits).map(([name, limit]) => [`urn:test:producer:${name}`, limit]),
);
writeFileSync(producersPath, JSON.stringify({ producers }));
const usual = await TestGateway.start(redis, pki, {
  INGEST_PRODUCERS_FILE: producersPath,
  INGEST_WAREHOUSE_URI: `sqlite:${warehousePath}`,
});

let requests = 0;
const next = (values: readonly string[]): string => values[(requests += 1) % values.length] ?? '';

/** Sends a request twice, with an X-Request-Id to echo and with one to replace. Returns the first answer. */
async function provoke(client: TestClient, wanted: string, ask: Ask): Promise<Seen> {
  return twice(wanted, scopeOf(ask.method ?? 'GET', ask.path), (requestId) =>
    client.ask({ ...ask, headers: { ...ask.headers, 'x-request-id': requestId } }),
  );
}

async function twice(wanted: string, scope: string, send: (requestId: string) => Promise<Seen>): Promise<Seen> {
  const mine = next(ECHOED);
  const echoed = await send(mine);
  assert.equal(echoed.headers['x-request-id'], mine);
  const replaced = await send(next(REPLACED));
  assert.match(String(replaced.headers['x-request-id']), UUID);
  for (const seen of [echoed, replaced]) expect(wanted, scope, seen);
  return echoed;
}

function expect(wanted: string, scope: string, seen: Seen): void {
  transcript.hold(scope, seen);
  const { code } =
    seen.headers['content-type'] === 'application/problem+json' && seen.body !== ''
      ? (JSON.parse(seen.body) as { code: string })
      : { code: undefined };
  assert.equal(
    [seen.status, ...(code === undefined ? [] : [code])].join(' '),
    wanted.slice(0, code === undefined ? 3 : undefined),
    seen.body,
  );
}

const post = (body: string | Buffer, headers: Readonly<Record<string, string>> = {}): Ask => ({
  method: 'POST',
  path: '/events',
  body,
  headers: { 'content-type': 'application/json', ...headers },
});

async function raw(
  from: TestGateway,
  text: string | Buffer,
  certificate: ClientCertificate | undefined = producer,
): Promise<{ seen: Seen; connection: RawConnection }> {
  const connection = await from.socket(certificate);
  connection.write(text);
  const seen = await eventually('a whole answer', () => firstResponse(connection.received));
  return { seen, connection };
}

const POST = 'POST /events HTTP/1.1\r\nHost: here\r\n';
const head = (requestId: string, ...more: readonly string[]): string =>
  `${POST}${['Content-Type: application/json', `X-Request-Id: ${requestId}`, ...more].join('\r\n')}\r\n\r\n`;

const faultPaths = (seen: Seen): string[] =>
  (JSON.parse(seen.body) as { errors?: { path: string }[] }).errors?.map(({ path }) => path) ?? [];

describe('POST /events', () => {
  it('takes the media types of JSON and CloudEvents in UTF-8, however they are written', async () => {
    for (const type of [
      'Application/CloudEvents+JSON;charset="UTF-8"',
      'application/json ; charset = utf8; x="a;charset=latin1"',
      'application/cloudevents+json;;v="\\""; Charset="utf\\-8" ',
    ])
      await provoke(one, '202', post(event(type, { specversion: '1.0', source: '/s' }), { 'content-type': type }));
  });

  const deep = (levels: number): string =>
    `{"id":"deep","type":"a","d":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`;
  // test/ingest has all faults of a body and of a CloudEvent.
  for (const [what, type, body, paths] of [
    ['a CloudEvent without a source', 'cloudevents+json', event('cloud', { specversion: '1.0' }), ['/source']],
    [
      'a CloudEvent of another version',
      'cloudevents+json',
      event('cloud', { specversion: '0.3', source: '/' }),
      ['/specversion'],
    ],
    ['bytes after the JSON text', 'json', `${event('trailing')}x`, ['']],
    ['65 levels of nesting', 'json', deep(65), ['']],
    ['a lone surrogate in an id', 'json', event('\ud83d'), ['/id']],
  ] as const)
    it(`answers 400 to ${what}, pointing at ${JSON.stringify(paths[0])}`, async () => {
      const headers = { 'content-type': `application/${type}` };
      assert.deepEqual(faultPaths(await provoke(one, '400 INVALID_EVENT', post(body, headers))), paths);
    });

  it('accepts 64 levels of nesting', async () => {
    await provoke(one, '202', post(deep(64)));
  });

  it('answers 400 when the framing of the body breaks', async () => {
    await twice(
      '400 INVALID_EVENT',
      'POST /events',
      async (requestId) =>
        (await raw(gateway, `${head(requestId, 'Transfer-Encoding: chunked')}5\r\n{"id"\r\nnot-a-size\r\n`)).seen,
    );
  });

  it('answers 401 without a certificate and with one of an unknown authority, 403 without the audience', async () => {
    const strangers = await Pki.create();
    await provoke(gateway.client(), '401 UNAUTHORIZED_PRODUCER', post(event('nobody')));
    await provoke(gateway.client(await strangers.producer('one')), '401 UNAUTHORIZED_PRODUCER', post(event('nobody')));
    const elsewhere = gateway.client(
      await pki.producer('elsewhere', { uris: ['urn:test:producer:elsewhere', 'urn:ingest:aud:another'] }),
    );
    await provoke(elsewhere, '403 UNAUTHORIZED_PRODUCER', post(event('nobody')));
    for (const method of ['GET', 'HEAD']) {
      await provoke(gateway.client(), '401 UNAUTHORIZED_PRODUCER', { method, path: '/events/nobody' });
      await provoke(elsewhere, '403 UNAUTHORIZED_PRODUCER', { method, path: '/events/nobody' });
    }
    assert.equal((await redis.entries()).filter(({ fields }) => fields['body']?.includes('"nobody"')).length, 0);
  });

  it('answers 413 to an announced length over the limit, before a byte of the body, and closes', async () => {
    const { headers } = await twice(
      '413 INVALID_EVENT',
      'POST /events',
      async (requestId) => (await raw(gateway, head(requestId, `Content-Length: ${BODY_BYTES_MAX + 1}`))).seen,
    );
    assert.equal(headers['connection'], 'close', 'the client may not send the body');
  });

  it('answers 413 exactly at the first byte over the limit if no length is announced', async () => {
    await twice('413 INVALID_EVENT', 'POST /events', async (requestId) => {
      const connection = await gateway.socket(producer);
      connection.write(
        `${head(requestId, 'Transfer-Encoding: chunked')}${BODY_BYTES_MAX.toString(16)}\r\n${' '.repeat(BODY_BYTES_MAX)}\r\n`,
      );
      await eventually('the body is being read', async () => (await gateway.metric('ingest_events_in_flight')) === 1);
      assert.equal(connection.received, '');
      connection.write('1\r\nx');
      return eventually('a whole answer', () => firstResponse(connection.received));
    });
  });

  it('accepts a body of exactly the limit', async () => {
    const empty = event('full', { filler: '' });
    await provoke(one, '202', post(event('full', { filler: 'x'.repeat(BODY_BYTES_MAX - empty.length) })));
  });

  it('answers 503 while too much is in flight, and 202 once it is not', async () => {
    const holder = await gateway.socket(producer);
    holder.write(`${head('holder', `Content-Length: ${event('holder').length}`)}{`);
    await eventually(
      'the half-sent event is in flight',
      async () => (await gateway.metric('ingest_events_in_flight')) === 1,
    );
    await provoke(one, '503 QUEUE_OVERLOADED', post(event('over')));
    holder.write(event('holder').slice(1));
    const seen = await eventually('a whole answer', () => firstResponse(holder.received));
    expect('202', 'POST /events', seen);
    await provoke(one, '202', post(event('over')));
  });
});

describeProducerContract(
  'of the gateway',
  async (): Promise<ContractGateway> => {
    const [own, another] = await Promise.all([pki.producer('contract'), pki.producer('another')]);
    const [client, strict, other] = [usual.client(own), usual.client(limitedToo), usual.client(another)];
    return {
      options: { url: `https://127.0.0.1:${usual.port}`, cert: own.cert, key: own.key, ca: pki.authority.certificate },
      client,
      takeByAnother: async (id) => assert.equal((await other.post(event(id))).status, 202),
      overQuota: async (body) => {
        for (;;) {
          const reply = await strict.post(body);
          if (reply.status !== 202) return reply;
        }
      },
      fail: async () => {
        await redis.signal('SIGKILL');
        return async () => {
          await redis.start();
          await eventually('the queue is back', async () => (await client.post(event('back'))).status === 202);
        };
      },
    };
  },
  transcript,
);

it('a gateway that limits its producers answers 403 to a disabled producer and to a type that is not allowed, and 429 over the quota', async () => {
  const typed = await provoke(usual.client(producer), '403 TYPE_NOT_ALLOWED', post(event('typed', { type: 'other' })));
  assert.match(typed.body, /may not send events of the type other; allowed: test\.\*"/);
  await provoke(usual.client(disabled), '403 PRODUCER_DISABLED', post(event('disabled')));
  const client = usual.client(limited);
  expect('202', 'POST /events', await client.ask(post(event('limited'))));
  const seen = await provoke(client, '429 PRODUCER_RATE_LIMITED', post(event('limited')));
  assert.equal(seen.headers['ratelimit-policy'], '"producer";q=1;w=1000');
  // `t` counts down from 1,000 after the accepted event, so the test allows for elapsed time.
  const [, seconds] = /^"producer";r=0;t=(\d+)$/.exec(String(seen.headers['ratelimit'])) ?? [];
  assert.ok(Number(seconds) > 900 && Number(seconds) <= 1_000, String(seen.headers['ratelimit']));
  assert.ok(Number(seen.headers['retry-after']) > 900);
  expect('200', 'GET /events/{id}', await client.ask({ path: '/events/limited' }));
  for (const method of ['GET', 'HEAD'])
    await provoke(client, '429 PRODUCER_RATE_LIMITED', { method, path: '/events/limited' });
});

describe('GET and HEAD of /events/{id}', () => {
  it('answer 200 for an event of the caller, with the body as it was accepted', async () => {
    const body = event('a/b c%\u{1F600}', { n: [1, { b: null }] });
    await provoke(one, '202', post(body));
    const path = `/events/${encodeURIComponent('a/b c%\u{1F600}')}`;
    const { event: shown, ...state } = JSON.parse((await provoke(one, '200', { path })).body) as Record<
      string,
      unknown
    >;
    assert.deepEqual(shown, JSON.parse(body));
    assert.deepEqual(
      { ...state, acceptedAt: '' },
      { id: 'a/b c%\u{1F600}', type: 'test.event', status: 'accepted', acceptedAt: '' },
    );
    await provoke(one, '200', { method: 'HEAD', path: `${path}?ignored=query` });
  });

  it('find the ids "." and "..", which many clients treat as path segments', async () => {
    for (const id of ['.', '..']) {
      await provoke(one, '202', post(event(id)));
      for (const target of [id, id.replaceAll('.', '%2E')]) {
        const seen = await provoke(one, '200', { path: `/events/${target}` });
        assert.equal((JSON.parse(seen.body) as { id: string }).id, id);
      }
      assert.equal(new URL(`https://g/events/${id.replaceAll('.', '%2E')}`).pathname.includes(id), false);
    }
  });

  it('answer 404 to ids that no event can have', async () => {
    for (const id of ['unknown', '%00', '%ff', '%', '%ed%a0%80', 'x'.repeat(257)]) {
      for (const method of ['GET', 'HEAD'])
        await provoke(one, '404 EVENT_NOT_FOUND', { method, path: `/events/${id}` });
    }
  });
});

it('process endpoints answer 200 without a certificate, and Prometheus text also to a scrape that prefers OpenMetrics', async () => {
  const accept = 'application/openmetrics-text;version=1.0.0,text/plain;q=0.5';
  for (const path of ['/health/live', '/health/ready', '/metrics'])
    for (const method of ['GET', 'HEAD']) {
      const { headers } = await provoke(gateway.client(), '200', { method, path, headers: { accept } });
      if (path === '/metrics') assert.equal(headers['content-type'], 'text/plain; version=0.0.4; charset=utf-8');
    }
});

describe('any path', () => {
  const target = (path: string): string => path.replace('{id}', 'an-id');

  it('answers 405 to another method, with the methods of the API file in Allow', async () => {
    for (const { path, methods } of PATHS) {
      const others = ['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'TRACE', 'PROPFIND', 'FOO'];
      for (const method of others.filter((name) => !methods.includes(name))) {
        const seen = await provoke(one, '405 METHOD_NOT_ALLOWED', { method, path: target(path) });
        assert.deepEqual(String(seen.headers['allow']).split(', '), methods);
      }
    }
  });

  it('answers 404 to an unknown path', async () => {
    const paths =
      '/ /event /events/ /events/a/b /Events /v2/events //events /?/events /health /health/live/ /metrics/x';
    for (const path of paths.split(' '))
      for (const method of ['GET', 'POST']) await provoke(one, '404 ROUTE_NOT_FOUND', { path, method });
    await twice(
      '404 ROUTE_NOT_FOUND',
      OTHER_PATHS,
      async (requestId) =>
        (await raw(gateway, `OPTIONS * HTTP/1.1\r\nHost: here\r\nX-Request-Id: ${requestId}\r\n\r\n`)).seen,
    );
  });

  it('answers 431 to more than 100 header fields, and not to 100', async () => {
    const fields = (count: number): Record<string, string> =>
      Object.fromEntries(Array.from({ length: count }, (_, at) => [`x-${at}`, '']));
    for (const { path, methods } of [...PATHS, { path: '/nowhere', methods: ['GET'] }]) {
      for (const method of [...methods, 'DELETE'])
        await provoke(one, '431 HEADERS_TOO_LARGE', { method, path: target(path), headers: fields(100) });
    }
    // The client adds X-Request-Id, Host and Connection, so the request has 100 fields.
    await provoke(one, '200', { path: '/health/live', headers: fields(97) });
  });
});

const CHUNKED = 'Transfer-Encoding: chunked\r\n';

describe('a request that cannot be read', () => {
  for (const [what, text, wanted] of [
    ['that is no HTTP', 'hello\r\n\r\n', '400 INVALID_EVENT'],
    ['with a broken header', 'GET /events HTTP/1.1\r\nno colon\r\n\r\n', '400 INVALID_EVENT'],
    ['with a length and chunks', `${POST}Content-Length: 2\r\n${CHUNKED}\r\n0\r\n\r\n`, '400 INVALID_EVENT'],
    ['with two lengths', `${POST}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}`, '400 INVALID_EVENT'],
    ['of HTTP/2 with prior knowledge', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', '400 INVALID_EVENT'],
    ['that wants a tunnel', 'CONNECT elsewhere:443 HTTP/1.1\r\nHost: elsewhere:443\r\n\r\n', '404 ROUTE_NOT_FOUND'],
    ['with a head over 16 KiB', `${POST}X-Filler: ${'x'.repeat(16_384)}\r\n\r\n`, '431 HEADERS_TOO_LARGE'],
    ['with a target over 16 KiB', POST.replace('events', 'x'.repeat(20_000)), '431 HEADERS_TOO_LARGE'],
  ] as const) {
    it(`${what} is answered ${wanted} with its request id or a new one, and the connection is closed`, async () => {
      for (const [sent, requestId] of [
        [text, UUID],
        [text.replace('\r\n', '\r\nX-Request-Id: unreadable\r\n'), /^unreadable$/],
      ] as const) {
        const { seen, connection } = await raw(gateway, sent);
        expect(wanted, UNREADABLE, seen);
        assert.match(String(seen.headers['x-request-id']), requestId);
        assert.equal(seen.headers['connection'], 'close');
        await connection.untilClosed();
      }
    });
  }
});

describe('a gateway with short timeouts', () => {
  let hasty: TestGateway;
  before(async () => {
    hasty = await TestGateway.start(redis, pki, {
      INGEST_ENQUEUE_TIMEOUT_MS: '150',
      INGEST_REQUEST_TIMEOUT_MS: '600',
      // Without a delay, a connection that is idle at the signal is closed before it can ask.
      INGEST_DRAIN_DELAY_MS: '4000',
    });
  });

  it('answers 408 when the head or the body does not arrive in time', async () => {
    const { seen } = await raw(hasty, 'POST /events HTTP/1.1\r\nX-Request-Id: mine\r\nHost: he');
    expect('408 REQUEST_TIMEOUT', UNREADABLE, seen);
    assert.equal(seen.headers['x-request-id'], 'mine');
    const withoutEnd = async (requestId: string): Promise<Seen> =>
      (await raw(hasty, `${head(requestId, 'Content-Length: 50')}{"id":`)).seen;
    await twice('408 REQUEST_TIMEOUT', 'POST /events', withoutEnd);
  });

  it('reports that it is not ready while it drains', async () => {
    const clients = [
      ['GET', hasty.client()],
      ['HEAD', hasty.client()],
    ] as const;
    await Promise.all(clients.map(([, client]) => client.ask({ path: '/health/live' })));
    hasty.signal('SIGTERM');
    await Promise.all(
      clients.map(async ([method, client]) => {
        const seen = await eventually('an answer that is not ready', async () => {
          const reply = await client.ask({ method, path: '/health/ready' });
          return reply.status === 503 ? reply : undefined;
        });
        expect('503', `${method} /health/ready`, seen);
        assert.equal(seen.headers['connection'], 'close');
      }),
    );
    assert.deepEqual(await hasty.exited(), { code: 0, signal: null });
  });
});

const unsignedToken = (kid: string): { readonly authorization: string } => {
  const parts = [
    { alg: 'ES256', kid },
    { aud: 'ingest-gateway', exp: 4e9 },
  ].map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'));
  return { authorization: `Bearer ${parts.join('.')}.c2ln` };
};

it('a gateway whose token keys do not contain a new one yet answers 503 with retryable', async () => {
  const keys = pki.write('jwks.json', jwks(await TokenIssuer.create('first')));
  const waiting = await TestGateway.start(redis, pki, { INGEST_TOKEN_JWKS: keys, INGEST_TOKEN_REQUIRED: '1' });
  const client = waiting.client(producer);
  await provoke(client, '503 TOKEN_KEY_UNKNOWN', post(event('new-key'), unsignedToken('a')));
  for (const method of ['GET', 'HEAD']) {
    const headers = unsignedToken(method);
    await provoke(client, '503 TOKEN_KEY_UNKNOWN', { method, path: '/events/new-key', headers });
  }
});

it('a gateway whose token keys are unavailable answers 500 with retryable, without the cause', async () => {
  const keyServer = `https://127.0.0.1:${await freePort()}/keys`;
  const keyless = await TestGateway.start(redis, pki, { INGEST_TOKEN_JWKS: keyServer, INGEST_TOKEN_REQUIRED: '1' });
  const client = keyless.client(producer);
  const headers = unsignedToken('a');
  const seen = await provoke(client, '500 INTERNAL', post(event('keyless'), headers));
  assert.doesNotMatch(seen.body, /127\.0\.0\.1|ECONN|fetch/);
  for (const method of ['GET', 'HEAD'])
    await provoke(client, '500 INTERNAL', { method, path: '/events/keyless', headers });
  await provoke(client, '401 UNAUTHORIZED_PRODUCER', post(event('keyless')));
});

it('a gateway whose Redis is down answers 503 with Retry-After, is not ready, and accepts events again once Redis is back', async () => {
  await provoke(one, '202', post(event('before')));
  await redis.signal('SIGKILL');
  await provoke(one, '503 QUEUE_UNAVAILABLE', post(event('away')));
  for (const method of ['GET', 'HEAD']) {
    await provoke(one, '503 LOOKUP_UNAVAILABLE', { method, path: '/events/before' });
    await eventually(
      'it says that it is not ready',
      async () => (await one.ask({ path: '/health/ready' })).status === 503,
    );
    await provoke(one, '503', { method, path: '/health/ready' });
    await provoke(one, '200', { method, path: '/health/live' });
  }
  await redis.start();
  await eventually('it is ready again', async () => (await one.ask({ path: '/health/ready' })).status === 200);
  await provoke(one, '202', post(event('away')));
});

const erasedBytes = (id: string, type: string | undefined): Buffer => Buffer.from(erasedBody(id, type));

it('a gateway with a warehouse shows landed, rejected and erased events, also bodies that are not JSON', async () => {
  const known = { producer: 'urn:test:producer:one', acceptedAtMs: Date.now() };
  await warehouse.land([{ ...known, id: 'landed', type: 'test.event', body: Buffer.from(event('landed')) }]);
  await warehouse.quarantine([
    { ...known, entry: '2-0', id: 'rejected', reason: 'why', body: Buffer.from(event('rejected')) },
    { ...known, entry: '3-0', id: 'no-json', reason: 'why', body: Buffer.from('{') },
    { ...known, entry: '4-0', id: 'erased-row', reason: 'why', body: erasedBytes('erased-row', undefined) },
  ]);
  const erased = erasedBytes('erased', 'test.event');
  await warehouse.land([{ ...known, id: 'erased', type: 'test.event', body: erased }]);
  await warehouse.close();
  const client = usual.client(producer);
  for (const [id, status] of [
    ['landed', 'landed'],
    ['rejected', 'rejected'],
    ['no-json', 'rejected'],
    ['erased', 'erased'],
    ['erased-row', 'erased'],
  ] as const) {
    const seen = await provoke(client, '200', { path: `/events/${id}` });
    assert.equal((JSON.parse(seen.body) as { status: string }).status, status);
    await provoke(client, '200', { method: 'HEAD', path: `/events/${id}` });
  }
});

it('the API file documents no response that was not provoked above', () => {
  assert.deepEqual(transcript.missing, []);
});

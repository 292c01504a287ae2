// Every scrape must count each request once: as accepted, duplicate, refused by code, aborted, or answered otherwise.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ERROR_CODES } from '../../lib/ingest/errors.ts';
import { queueAndProducer } from '../support/file-gateway.ts';
import { event, TestGateway, type Ask, type Reply, type TestClient } from '../support/gateway.ts';
import { Scrape } from '../support/scrape.ts';
import { eventually } from '../support/scope.ts';
import { replies, requestText } from '../support/wire.ts';

const JSON_TYPE = 'Content-Type: application/json';

const { redis, pki, producer } = await queueAndProducer();

function assertBalanced(scrape: Scrape): void {
  const others =
    scrape.sum('ingest_http_requests_total', { status: '200' }) +
    scrape.sum('ingest_http_requests_total', { route: '/health/ready', status: '503' });
  const names = ['ingest_accepted_total', 'ingest_duplicates_total', 'ingest_errors_total', 'ingest_aborted_total'];
  const accounted = names.reduce((sum, name) => sum + scrape.sum(name), 0);
  assert.equal(scrape.sum('ingest_http_requests_total') - others, accounted, scrape.text);
}

class Tally {
  readonly codes = new Map<string, number>();
  accepted = 0;
  duplicates = 0;

  add(reply: Pick<Reply, 'status' | 'body'>): void {
    const { code, duplicate } = JSON.parse(reply.body) as { code?: string; duplicate?: boolean };
    if (code !== undefined) this.codes.set(code, (this.codes.get(code) ?? 0) + 1);
    else if (reply.status === 202 && duplicate === true) this.duplicates += 1;
    else if (reply.status === 202) this.accepted += 1;
  }
}

const post = (body: string, headers: Readonly<Record<string, string>> = {}): Ask => ({
  method: 'POST',
  path: '/events',
  body,
  headers: { 'content-type': 'application/json', ...headers },
});

async function refusals(gateway: TestGateway, one: TestClient, tally: Tally): Promise<void> {
  const many = Object.fromEntries(Array.from({ length: 101 }, (_, at) => [`x-${at}`, '']));
  const asks: [TestClient, Ask][] = [
    [one, post('{')],
    [one, post('{"id":"secret-id"}')],
    [gateway.client(), post(event('secret-id'))],
    [
      gateway.client(await pki.producer('secret-audience', { uris: ['urn:test:producer:x'] })),
      post(event('secret-id')),
    ],
    [gateway.client(await pki.producer('two')), post(event('repeated'))],
    [one, post(event('secret-id', { filler: 'x'.repeat(5_000) }))],
    [one, post(event('secret-id'), { 'content-type': 'text/plain' })],
    [one, { path: '/events/secret-id', headers: { 'x-request-id': 'secret-request' } }],
    [one, { path: '/secret-path' }],
    [one, { method: 'PROPFIND', path: '/events' }],
    [one, { method: 'DELETE', path: '/events/secret-id' }],
    [one, { path: '/health/live', headers: many }],
  ];
  for (const [client, ask] of asks) tally.add(await client.ask(ask));
  const chunks = requestText('POST /events', [JSON_TYPE, 'Transfer-Encoding: chunked']);
  const texts = [
    'no http\r\n\r\n',
    requestText('GET /', [`X-Filler: ${'x'.repeat(17_000)}`]),
    'CONNECT secret-host:1 HTTP/1.1\r\nHost: a\r\n\r\n',
    'GET /even',
    requestText('POST /events', [JSON_TYPE, 'Content-Length: 9'], '{'),
    `${chunks}zz\r\n`,
    `${chunks}1388\r\n${' '.repeat(5000)}`,
  ];
  await Promise.all(
    texts.map(async (text) => {
      const connection = await gateway.socket(producer);
      connection.write(text);
      const [answer = assert.fail()] = await replies(connection, 1);
      tally.add(answer);
    }),
  );
}

/** Starts requests whose bodies never end, then disconnects. Returns the number of requests. */
async function aborts(gateway: TestGateway): Promise<number> {
  const inFlight = (count: number): Promise<unknown> =>
    eventually(`${count} in flight`, async () => (await gateway.metric('ingest_events_in_flight')) === count);
  const starts = [
    requestText('POST /events', [JSON_TYPE, 'Content-Length: 90'], '{'),
    requestText('POST /events', [JSON_TYPE, 'Transfer-Encoding: chunked'], '1\r\n{'),
  ];
  const connections = await Promise.all([0, 1, 2, 3].map(() => gateway.socket(producer)));
  for (const [at, connection] of connections.entries()) connection.write(starts[at % 2] ?? '');
  await inFlight(connections.length);
  for (const [at, { socket }] of connections.entries()) {
    if (at < 2) socket.destroy();
    else socket.end();
  }
  await inFlight(0);
  return connections.length;
}

async function mixedLoad(gateway: TestGateway, tally: Tally): Promise<number> {
  const one = gateway.client(producer);
  for (let at = 0; at < 5; at += 1) tally.add(await one.ask(post(event('repeated'))));
  // The gateway has room for 8 of these 40 simultaneous requests, so it refuses some as overload.
  for (let round = 0; round < 5; round += 1) {
    const asks = Array.from({ length: 40 }, (_, at) => one.ask(post(event(`event-${round}-${at}`))));
    for (const reply of await Promise.all(asks)) tally.add(reply);
  }
  const aborted = await aborts(gateway);
  await refusals(gateway, one, tally);
  await redis.signal('SIGKILL');
  for (const ask of [post(event('unavailable')), { path: '/events/repeated' }]) tally.add(await one.ask(ask));
  await redis.start();
  return aborted;
}

describe('/metrics', () => {
  it('adds up to the requests sent, in every scrape of a mixed load', async () => {
    const gateway = await TestGateway.start(redis, pki, {
      INGEST_BODY_BYTES_MAX: '4096',
      INGEST_IN_FLIGHT_MAX: '8',
      INGEST_REQUEST_TIMEOUT_MS: '8000',
    });
    const scraper = gateway.client();
    const { body } = await scraper.ask({ path: '/metrics' });
    const labels = [...body.matchAll(/^ingest_errors_total\{(.*)\} 0$/gm)].map(([, label]) => label);
    assert.deepEqual(labels.sort(), ERROR_CODES.map((code) => `code="${code}"`).sort(), 'all codes from the start');
    const tally = new Tally();
    let loading = true;
    const load = mixedLoad(gateway, tally).finally(() => (loading = false));
    let scrapes = 0;
    const scraping = (async () => {
      for (; loading; scrapes += 1) assertBalanced(await Scrape.of(scraper));
    })();
    const [aborted] = await Promise.all([load, scraping]);
    assert.ok(scrapes > 5, `${scrapes} scrapes`);

    const scrape = await Scrape.of(scraper);
    assertBalanced(scrape);
    const codes = Object.fromEntries(
      scrape.samples
        .filter(({ name, value }) => name === 'ingest_errors_total' && value > 0)
        .map(({ labels, value }) => [labels['code'] ?? '', value] as const),
    );
    assert.deepEqual(codes, Object.fromEntries(tally.codes));
    const provoked = [
      'INVALID_EVENT',
      'UNAUTHORIZED_PRODUCER',
      'EVENT_NOT_FOUND',
      'ROUTE_NOT_FOUND',
      'REQUEST_TIMEOUT',
    ];
    provoked.push('METHOD_NOT_ALLOWED', 'EVENT_ID_CONFLICT', 'HEADERS_TOO_LARGE', 'QUEUE_UNAVAILABLE');
    assert.deepEqual(
      [...provoked, 'QUEUE_OVERLOADED'].filter((code) => !(code in codes)),
      [],
    );
    assert.equal(scrape.sum('ingest_accepted_total'), tally.accepted);
    assert.equal(scrape.sum('ingest_duplicates_total'), tally.duplicates);
    assert.equal(scrape.sum('ingest_aborted_total'), aborted);
    assert.equal(scrape.sum('ingest_refused_overload_total'), tally.codes.get('QUEUE_OVERLOADED'));
    assert.equal(scrape.sum('ingest_shed_total'), 0, 'no answer has the status shed');
    assert.equal(scrape.sum('ingest_http_requests_total', { status: '202' }), tally.accepted + tally.duplicates);
    assert.equal(scrape.sum('ingest_http_requests_total', { status: '499' }), aborted);
    assert.equal(
      scrape.sum('ingest_enqueue_duration_seconds_count'),
      tally.accepted + tally.duplicates + (tally.codes.get('EVENT_ID_CONFLICT') ?? 0),
    );
    assert.equal(scrape.sum('ingest_events_in_flight'), 0);
    assert.doesNotMatch(scrape.text.replace(/^#.*$/gm, ''), /secret|repeated|urn:|event-\d/, 'no label names a client');
    for (const route of ['/events', '/events/{id}', '/health/live', '/metrics'])
      assert.equal(
        scrape.sum('ingest_http_request_duration_seconds_count', { route }),
        scrape.sum('ingest_http_requests_total', { route }),
        route,
      );
  });
});

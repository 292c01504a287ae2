import assert from 'node:assert/strict';
import { before, beforeEach, describe, it } from 'node:test';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import type { Gateway } from '../../lib/gateway/gateway.ts';
import { RequestSpans } from '../../lib/gateway/request-spans.ts';
import type { Answer } from '../../lib/http/respond.ts';
import { HANDSHAKE_FAILURES } from '../../lib/http/connection-failure.ts';
import { ERROR_CODES } from '../../lib/ingest/errors.ts';
import type { EventNotes } from '../../lib/ingest/queue.ts';
import type { WarehouseLookup } from '../../lib/ingest/warehouse.ts';
import type { Tracing } from '../../lib/telemetry/tracing.ts';
import { anyCharacter } from '../support/any-character.ts';
import { event, TestClient, type Reply } from '../support/client.ts';
import { gatewayInProcess } from '../support/gateway-in-process.ts';
import { MemoryQueue, MemoryQueueStore } from '../support/memory-queue.ts';
import { Pki } from '../support/pki.ts';
import { SYSTEM } from '../support/system.ts';

const BODY_BYTES_MAX = 20_000;
const SAMPLED = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
const UNSAMPLED = SAMPLED.replace(/01$/, '00');
const RESERVED = '00-4bf92f3577b34da6a3ce929d0e0e4736-aaaaaaaaaaaaaaaa-01';
const MADE = '00-4bf92f3577b34da6a3ce929d0e0e4736-bbbbbbbbbbbbbbbb-01';

describe("a gateway's answers", () => {
  const store = new MemoryQueueStore();
  const queue = new MemoryQueue(store);
  const spans: Parameters<Tracing['record']>[0][] = [];
  let inWarehouse: WarehouseLookup = { kind: 'unknown' };
  /** The warehouse's first answers. */
  const looks: WarehouseLookup[] = [];
  let running: Gateway | undefined;
  let client: TestClient;
  let bySource: TestClient;

  before(async () => {
    const pki = await Pki.create();
    const tracing: Tracing = {
      reserve: (parent) => ({ ...parent, traceparent: RESERVED }),
      record: (span) => {
        spans.push(span);
        return { traceparent: MADE };
      },
      close: () => Promise.resolve(),
    };
    const started = async (more: Readonly<Record<string, string>>): Promise<TestClient> => {
      const { gateway, port } = await gatewayInProcess(
        pki,
        { INGEST_BODY_BYTES_MAX: String(BODY_BYTES_MAX), ...more },
        {
          queue,
          warehouse: { find: () => Promise.resolve(looks.shift() ?? inWarehouse) },
          spans: new RequestSpans(tracing, { system: 'memory', destination: 'ingest' }, SYSTEM.clock),
        },
      );
      if (more['INGEST_EVENT_ID'] === undefined) running = gateway;
      return new TestClient(port, pki.authority.certificate, await pki.producer('shop'), {});
    };
    [client, bySource] = await Promise.all([started({}), started({ INGEST_EVENT_ID: 'source+id' })]);
  });
  beforeEach(() => {
    inWarehouse = { kind: 'unknown' };
    spans.length = 0;
  });

  const refusal = ({ status, json }: Reply): readonly unknown[] => [status, json?.['code'], json?.['detail']];

  describe('to a look-up', () => {
    const TIMES = { acceptedAtMs: 1_000, traceparent: undefined };
    const ACCEPTED_AT = '1970-01-01T00:00:01.000Z';
    const ENDED_AT = '1970-01-01T00:00:02.000Z';

    it('show a landed event byte for byte, with its times and its trace', async () => {
      const text = ' {"id":"a", "type":"t", "n":1.0}';
      inWarehouse = { kind: 'landed', text, type: 't', ...TIMES, landedAtMs: 2_000 };
      const { status, headers, body } = await client.find('a');
      assert.deepEqual([status, headers['content-type']], [200, 'application/json']);
      const about = { id: 'a', type: 't', status: 'landed', acceptedAt: ACCEPTED_AT, landedAt: ENDED_AT };
      assert.equal(body, `${JSON.stringify(about).slice(0, -1)},"event":${text}}`);
      inWarehouse = { ...inWarehouse, traceparent: SAMPLED };
      assert.equal((await client.find('a')).json?.['traceparent'], SAMPLED);
    });

    it('show a rejected event with the reason, and its body as text if it is not JSON', async () => {
      const rejected = { kind: 'rejected', ...TIMES, rejectedAtMs: 2_000, reason: 'schema: x' } as const;
      const about = { id: 'a', status: 'rejected', acceptedAt: ACCEPTED_AT, rejectedAt: ENDED_AT, reason: 'schema: x' };
      for (const [body, type, shown] of [
        ['{"id":"a","type":"t"}', 't', { id: 'a', type: 't' }],
        ['{"id":"a","type":7}', undefined, { id: 'a', type: 7 }],
        ['null', undefined, null],
        ['7', undefined, 7],
        ['{"id"', undefined, '{"id"'],
      ] as const) {
        inWarehouse = { ...rejected, body: Buffer.from(body) };
        const { status, json } = await client.find('a');
        assert.equal(status, 200);
        assert.deepEqual(json, { ...about, ...(type === undefined ? {} : { type }), event: shown }, body);
      }
    });

    it('show an event on the queue that the warehouse does not know', async () => {
      await client.post('{"id":"waiting","type":"t","n":1.0}');
      const { status, body } = await client.find('waiting');
      assert.equal(status, 200);
      const start = /^\{"id":"waiting","type":"t","status":"accepted","acceptedAt":"\d{4}-[\dT:.-]{18}Z","event":/;
      assert.equal(body.replace(start, ''), '{"id":"waiting","type":"t","n":1.0}}');
    });

    it('show an event that lands and leaves the queue between the two queries', async () => {
      const landed = {
        kind: 'landed',
        text: event('late'),
        type: 'test.event',
        acceptedAtMs: 1,
        landedAtMs: 2,
      } as const;
      looks.push({ kind: 'unknown' }, { ...landed, traceparent: undefined });
      const { status, json } = await client.find('late');
      assert.deepEqual([status, json?.['status']], [200, 'landed']);
      assert.equal((await client.find('late')).status, 404);
    });

    it('are 503 while the warehouse cannot be queried, even if the queue knows the event', async () => {
      await client.post(event('known'));
      inWarehouse = { kind: 'unavailable' };
      const expected = [503, 'LOOKUP_UNAVAILABLE', 'the queue or the warehouse could not be queried'];
      assert.deepEqual(refusal(await client.find('known')), expected);
      inWarehouse = { kind: 'unknown' };
      queue.find = () => Promise.resolve({ kind: 'unavailable' });
      assert.deepEqual(refusal(await client.find('known')), expected);
      Reflect.deleteProperty(queue, 'find');
    });
  });

  describe('to an event', () => {
    const status = async (body: string | Buffer, headers: Readonly<Record<string, string>>): Promise<number> =>
      (await client.post(body, headers)).status;

    it('are 202 for a CloudEvent in binary mode, which is queued as one object', async () => {
      const attributes = { 'ce-specversion': '1.0', 'ce-id': 'binary', 'ce-source': '/s', 'ce-type': 't' };
      const coded = { 'ce-id': 'coded', 'content-encoding': 'gzip' };
      for (const [id, body, more] of [
        ['binary', '{"n":1}', {}],
        ['coded', gzipSync('{"n":1}'), coded],
      ] as const) {
        assert.equal(await status(body, { ...attributes, ...more }), 202);
        assert.deepEqual(JSON.parse(store.entries.at(-1)?.body ?? ''), {
          ...{ specversion: '1.0', id, source: '/s', type: 't', datacontenttype: 'application/json' },
          data: { n: 1 },
        });
      }
      const { 'ce-type': _, ...incomplete } = attributes;
      assert.equal(await status('{"n":1}', incomplete), 400);
    });

    it('are 202 with the id as JSON, whatever characters it has', async () => {
      for (const id of ['a\\b', 'a"b', 'ä/\u2028'])
        assert.deepEqual((await client.post(event(id))).json, { id, status: 'accepted' });
    });

    it('are 415 in another charset, however its name is written', async () => {
      for (const charset of ['charset=latin1', 'Charset="latin1"', 'x=";", CHARSET=latin1'])
        assert.equal(await status(event('c'), { 'content-type': `application/json; ${charset}` }), 415, charset);
    });

    it('are 413 if the queue cannot take a body of this length, which a retry does not change', async () => {
      queue.submit = (submission) => queueMicrotask(() => submission.settle('too large'));
      const { status, json } = await client.post(event('long'));
      Reflect.deleteProperty(queue, 'submit');
      assert.deepEqual([status, json?.['code'], json?.['retryable']], [413, 'INVALID_EVENT', false]);
    });

    it("keep both a CloudEvent's id and its trace with its body", async () => {
      const traceparent = UNSAMPLED;
      const body = JSON.stringify({ specversion: '1.0', source: '/shop', id: '7', type: 'order.placed' });
      const notesOf = async (
        headers: Readonly<Record<string, string>>,
        sent: string,
      ): Promise<EventNotes | undefined> => {
        assert.equal((await bySource.post(sent, headers)).status, 202);
        return store.entries.at(-1)?.notes;
      };
      const cloudEvent = { 'content-type': 'application/cloudevents+json' };
      const trace = { traceparent, tracestate: 'vendor=1' };
      assert.deepEqual(await notesOf({ ...cloudEvent, ...trace }, body), { id: '/shop 7', ...trace });
      assert.deepEqual(await notesOf(cloudEvent, body.replace('"7"', '"8"')), { id: '/shop 8' });
      assert.deepEqual(await notesOf(trace, event('traced')), trace);
      assert.deepEqual(await notesOf({ tracestate: 'vendor=1' }, event('untraced')), {});
      assert.deepEqual(await notesOf({ traceparent: 'none' }, event('wrongly traced')), {});
    });

    it('are 202 to any bytes only if the queue has them as a new event, and else a documented refusal', async () => {
      const anyBody = fc.oneof(
        fc
          .record(
            { id: fc.string({ unit: anyCharacter, maxLength: 300 }), type: fc.string(), data: fc.jsonValue() },
            { requiredKeys: [] },
          )
          .map((value) => Buffer.from(JSON.stringify(value))),
        fc.tuple(fc.nat(), fc.nat(255)).map(([at, value]) => {
          const body = Buffer.from(event('one byte changed', { data: [1, { a: 'é' }] }));
          body[at % body.length] = value;
          return body;
        }),
      );
      await fc.assert(
        fc.asyncProperty(anyBody, async (body) => {
          const before = store.entries.length;
          const answer = await client.post(body);
          const { status, duplicate, code } = JSON.parse(answer.body) as Readonly<Record<string, unknown>>;
          if (answer.status === 202) assert.equal(status, 'accepted');
          else assert.deepEqual([answer.status, code], [400, 'INVALID_EVENT']);
          const isNew = answer.status === 202 && duplicate === undefined;
          assert.equal(store.entries.length - before, isNew ? 1 : 0);
          if (isNew) assert.deepEqual(Buffer.from(store.entries.at(-1)?.body ?? ''), body);
        }),
        { numRuns: 200 },
      );
    });

    it('are 400 if source and id together do not form an id', async () => {
      const cloudEvent = { specversion: '1.0', source: `/${'s'.repeat(200)}`, id: 'i'.repeat(200), type: 't' };
      const { json } = await bySource.post(JSON.stringify(cloudEvent), {
        'content-type': 'application/cloudevents+json',
      });
      assert.equal(json?.['detail'], 'source and id do not form a valid id');
      assert.deepEqual(
        (json?.['errors'] as { path: string }[]).map(({ path }) => path),
        ['/source'],
      );
    });

    it('are 413 for a CloudEvent in binary mode whose base64 data, or a decoded body, is over the limit', async () => {
      const fields = { 'ce-specversion': '1.0', 'ce-source': '/s', 'ce-type': 't', 'content-type': 'text/plain' };
      const before = store.entries.length;
      const answer = await client.post('x'.repeat(16_000), { ...fields, 'ce-id': 'grown' });
      assert.deepEqual(refusal(answer).slice(0, 2), [413, 'INVALID_EVENT']);
      assert.equal(store.entries.length, before);
      assert.equal(await status('x'.repeat(10_000), { ...fields, 'ce-id': 'grown' }), 202);
      const coded = gzipSync(event('long', { pad: 'x'.repeat(BODY_BYTES_MAX) }));
      const full = event('full', { pad: 'x'.repeat(BODY_BYTES_MAX - event('full', { pad: '' }).length) });
      const stored = gzipSync(full, { level: 0 });
      assert.ok(stored.length > BODY_BYTES_MAX);
      assert.equal(await status(stored, { 'content-encoding': 'gzip' }), 202);
      const detail = `the body is over the limit of ${BODY_BYTES_MAX} bytes`;
      assert.deepEqual(refusal(await client.post(coded, { 'content-encoding': 'gzip' })), [
        413,
        'INVALID_EVENT',
        detail,
      ]);
    });

    it('are 400 for the exact form of an erased event, and 202 for any other with that member', async () => {
      const erased = '{"id":"erased","type":"t","erased":true}';
      const { status: refused, json } = await client.post(erased);
      assert.deepEqual([refused, json?.['code'], json?.['retryable']], [400, 'INVALID_EVENT', false]);
      assert.equal(await status(gzipSync(erased), { 'content-encoding': 'gzip' }), 400);
      for (const body of [
        '{"id":"erased-1","type":"t","erased":true }',
        '{"id":"erased-2","type":"t","n":1,"erased":true}',
        '{"type":"t","id":"erased-3","erased":true}',
      ]) {
        assert.equal(await status(body, {}), 202, body);
        assert.equal((await client.find(/erased-\d/.exec(body)?.[0] ?? '')).json?.['status'], 'accepted');
      }
    });
  });

  describe('are counted', () => {
    const samples = async (): Promise<Readonly<Record<string, string>>> =>
      Object.fromEntries(
        (await client.ask({ path: '/metrics' })).body
          .split('\n')
          .map((line) => line.split(/ (?=\S+$)/) as [string, string]),
      );
    async function growth(work: () => Promise<unknown>, ...names: readonly string[]): Promise<readonly number[]> {
      const before = await samples();
      await work();
      const after = await samples();
      return names.map((name) => Number(after[name] ?? 0) - Number(before[name] ?? 0));
    }
    const requests = (method: string, route: string, status: number): string =>
      `ingest_http_requests_total{method="${method}",route="${route}",status="${status}"}`;

    it('by method, route and status', async () => {
      const grown = await growth(
        async () => {
          for (const id of ['one', 'other']) await client.post(event(`counted-${id}`));
          await client.post(event('counted-one'));
          await client.post(event('counted-one', { n: 1 }));
          await client.find('counted-one');
          await client.ask({ method: 'DELETE', path: '/events' });
          await client.ask({ method: 'BREW', path: '/nothing' });
          await client.ask({ path: '/nothing' });
          await client.ask({ method: 'PROPFIND', path: '/nothing' });
          inWarehouse = { kind: 'unavailable' };
          await client.find('counted-one');
        },
        requests('POST', '/events', 202),
        requests('GET', '/events/{id}', 200),
        requests('DELETE', '/events', 405),
        requests('GET', 'none', 404),
        requests('other', 'none', 404),
        'ingest_http_request_duration_seconds_count{route="/events"}',
        'ingest_duplicates_differing_total',
        'ingest_accepted_total',
        'ingest_duplicates_total',
        'ingest_errors_total{code="METHOD_NOT_ALLOWED"}',
        'ingest_errors_total{code="ROUTE_NOT_FOUND"}',
        requests('GET', '/events/{id}', 503),
        'ingest_refused_overload_total',
      );
      assert.deepEqual(grown, [4, 1, 1, 1, 2, 5, 1, 2, 2, 1, 3, 1, 0]);
      const shown = Object.keys(await samples()).filter((name) => name.startsWith('ingest_errors_total{'));
      assert.deepEqual(shown.toSorted(), ERROR_CODES.map((code) => `ingest_errors_total{code="${code}"}`).toSorted());
    });

    it('have one text of metrics for all requests at one moment, and a new one later', async () => {
      const { state } = running ?? assert.fail();
      const [one, two] = await Promise.all([state.metrics(), state.metrics()]);
      assert.equal(one, two);
      assert.equal((await client.post(event('counted'))).status, 202);
      const later = await state.metrics();
      const accepted = ({ body }: Answer): number => Number(/^ingest_accepted_total (\d+)$/m.exec(String(body))?.[1]);
      assert.equal(accepted(later), accepted(one) + 1);
    });

    it('beside what the gateway holds now', async () => {
      const shown = await samples();
      assert.equal(shown['ingest_events_in_flight'], '0');
      assert.equal(shown['ingest_queue_available'], '1');
      for (const reason of HANDSHAKE_FAILURES)
        assert.equal(shown[`ingest_tls_handshake_failures_total{reason="${reason}"}`], '0', 'before the first one');
      assert.ok('ingest_http_request_duration_seconds_bucket{le="0.2",route="/events"}' in shown, 'the target');
      assert.equal(shown['ingest_queue_up{partition="0"}'], '1');
      assert.ok(Number(shown['ingest_connections']) >= 1);
      const expiry = Number(shown['ingest_tls_certificate_expiry_seconds{file="cert"}']);
      assert.ok(expiry > 60 && expiry < 1e10, `${expiry}`);
    });
  });

  describe('have spans', () => {
    it('of the request and of sending its event, if the caller records the trace', async () => {
      const body = event('spanned');
      const startedMs = Date.now();
      await client.ask({
        ...{ method: 'POST', path: '/events?a=b', body },
        headers: { 'content-type': 'application/json', traceparent: SAMPLED, 'x-request-id': 'mine' },
      });
      assert.equal(store.entries.at(-1)?.notes.traceparent, RESERVED, 'its landing comes below the sending');
      const [server, producer] = spans;
      assert.ok(server !== undefined && producer !== undefined && spans.length === 2);
      const about = ({ name, kind, parent, error }: typeof server) => [name, kind, parent?.traceparent, error];
      assert.deepEqual(about(server), ['POST /events', 'server', SAMPLED, undefined]);
      assert.deepEqual(server.attributes, {
        ...{ 'http.request.method': 'POST', 'http.route': '/events', 'url.scheme': 'https', 'url.path': '/events' },
        ...{ 'client.address': '127.0.0.1', 'network.protocol.version': '1.1' },
        'ingest.producer': 'urn:test:producer:shop',
        'ingest.request_id': 'mine',
        'http.response.status_code': 202,
      });
      assert.deepEqual(about(producer), ['send ingest', 'producer', MADE, undefined]);
      assert.equal(producer.context?.traceparent, RESERVED);
      assert.deepEqual(producer.attributes, {
        ...{ 'messaging.system': 'memory', 'messaging.destination.name': 'ingest' },
        ...{ 'messaging.operation.name': 'send', 'messaging.operation.type': 'send' },
        'messaging.message.id': 'spanned',
        'messaging.message.body.size': body.length,
      });
      for (const { startMs, endMs } of [server, producer]) {
        assert.ok(startMs >= startedMs - 60_000 && startMs <= endMs, `${startMs} to ${endMs}`);
        assert.ok(endMs <= Date.now() + 60_000);
      }
    });

    it('of refused requests only, if the caller does not record the trace', async () => {
      await client.post(event('plain'));
      await client.post(event('unsampled'), { traceparent: UNSAMPLED });
      assert.equal(store.entries.at(-1)?.notes.traceparent, UNSAMPLED);
      assert.equal(spans.length, 0);
      await client.post('{}');
      const of = spans.map(({ attributes: all, error }) => [
        all['http.response.status_code'],
        all['error.type'],
        error,
      ]);
      assert.deepEqual(of, [[400, 'INVALID_EVENT', undefined]], 'the server did not fail');
    });

    it('with an error if the gateway or the queue failed', async () => {
      queue.submit = (submission) => queueMicrotask(() => submission.settle('unavailable'));
      await client.post(event('failed'), { traceparent: SAMPLED });
      Reflect.deleteProperty(queue, 'submit');
      const errors = spans.flatMap(({ error, attributes }) => [error, attributes['error.type']]);
      assert.deepEqual(
        errors,
        Array.from({ length: 4 }, () => 'QUEUE_UNAVAILABLE'),
      );
    });
  });
});

// Sends CloudEvents 1.0 over HTTP with the official SDK. test/ingest/cloud-event.test.ts has the conformance cases.
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { CloudEvent, emitterFor, HTTP, Mode, type Message } from 'cloudevents';
import { fileGateway } from '../support/file-gateway.ts';
import { event, PATIENT, TestGateway, type Reply, type TestClient } from '../support/gateway.ts';
import { Program } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { sqliteStore } from '../support/warehouse-store.ts';

const { redis, pki, producer, client } = await fileGateway();

let made = 0;
const fresh = (): string => `event-${(made += 1)}`;

const ATTRIBUTES = { 'ce-specversion': '1.0', 'ce-type': 'com.example.someevent', 'ce-source': '/mycontext' };

describe('a gateway', () => {
  const binary = (
    id: string,
    contentType: string | undefined,
    body: string | Buffer,
    more: Readonly<Record<string, string>> = {},
  ): Promise<Reply> =>
    client.ask({
      method: 'POST',
      path: '/events',
      body,
      headers: {
        ...ATTRIBUTES,
        'ce-id': id,
        ...(contentType === undefined ? {} : { 'content-type': contentType }),
        ...more,
      },
    });

  async function shown(id: string): Promise<Record<string, unknown>> {
    const reply = await client.find(id);
    assert.equal(reply.status, 200, reply.body);
    return reply.json?.['event'] as Record<string, unknown>;
  }

  for (const mode of [Mode.BINARY, Mode.STRUCTURED]) {
    it(`accepts CloudEvents of the official SDK in ${mode} mode and returns events that the SDK reads`, async () => {
      const replies: Reply[] = [];
      const emit = emitterFor(
        async (message: Message) => {
          const headers = Object.fromEntries(
            // The SDK leaves the encoding of header values to its caller.
            Object.entries(message.headers).map(([name, value]) => [name, encodeURI(String(value))]),
          );
          const body = message.body as string | Uint8Array | undefined;
          const sent = body === undefined ? {} : { body: Buffer.from(body as string) };
          replies.push(
            await client.ask({
              method: 'POST',
              path: '/events',
              ...sent,
              headers: { ...headers, 'content-type': decodeURI(headers['content-type'] ?? '') },
            }),
          );
        },
        { mode },
      );
      const common = { source: 'https://shop.example/orders?a=b', type: 'com.example.order.placed' };
      const events = [
        { datacontenttype: 'application/json', data: { order: 1, text: 'Euro € "quoted" 100%' } },
        { datacontenttype: 'application/json', data: [1, null, 'two'], subject: 'Euro € 😀 "x" 100%' },
        { datacontenttype: 'text/plain', data: 'no JSON', comexampleextension: 'über' },
        { datacontenttype: 'application/octet-stream', data: Uint8Array.from([0, 255, 128, 10]) },
        {},
      ].map((more) => new CloudEvent<unknown>({ ...common, ...more, id: fresh() }));
      for (const one of events) {
        await emit(one);
        const { json, body } = replies.at(-1) as Reply;
        assert.deepEqual(json, { id: one.id, status: 'accepted' }, body);
        const found = await shown(one.id);
        const back = HTTP.toEvent({
          headers: { 'content-type': 'application/cloudevents+json' },
          body: JSON.stringify(found),
        }) as CloudEvent<unknown>;
        assert.ok(back.validate());
        for (const attribute of ['id', 'source', 'type', 'subject', 'time', 'specversion', 'comexampleextension']) {
          assert.deepEqual(back[attribute], one[attribute], attribute);
        }
        // For media types other than JSON, the SDK returns an array of byte values.
        const bytes = (value: unknown): unknown =>
          ArrayBuffer.isView(value)
            ? Array.from(value as Uint8Array)
            : typeof value === 'string'
              ? [...Buffer.from(value)]
              : value;
        assert.deepEqual(bytes(back.data), bytes(one.data));
      }
    });
  }

  it('stores the equivalent structured event, so a repeat in the other mode is a duplicate', async () => {
    const id = fresh();
    assert.equal((await binary(id, 'application/json', '{"a":1}')).status, 202);
    const [entry] = (await redis.entries()).filter(({ fields }) => fields['body']?.includes(`"${id}"`));
    const structured = entry?.fields['body'] ?? '';
    const again = await client.post(structured, { 'content-type': 'application/cloudevents+json' });
    assert.deepEqual(again.json, { id, status: 'accepted', duplicate: true });
  });
});
describe('INGEST_EVENT_ID=source+id', () => {
  let client: TestClient;
  const store = sqliteStore();
  before(async () => {
    const env = { ...PATIENT, INGEST_EVENT_ID: 'source+id', INGEST_WAREHOUSE_URI: store.uri };
    const queue = await TestRedis.start();
    const consumer = new Program('ingest-consumer', {
      env: { INGEST_QUEUE_URI: queue.uri, INGEST_WAREHOUSE_URI: store.uri, INGEST_CONSUMER_ADDR: '127.0.0.1:0' },
    });
    await consumer.listening();
    client = (await TestGateway.start(queue, pki, env)).client(producer);
  });

  const structured = (source: unknown, id: string): Promise<Reply> =>
    client.post(JSON.stringify({ specversion: '1.0', id, source, type: 'a.b' }), {
      'content-type': 'application/cloudevents+json',
    });

  it('lands CloudEvents with one id and several sources as separate events', async () => {
    assert.deepEqual((await structured('/shop', '1')).json, { id: '/shop 1', status: 'accepted' });
    assert.deepEqual((await structured('/shop', '1')).json, { id: '/shop 1', status: 'accepted', duplicate: true });
    const headers = { 'ce-specversion': '1.0', 'ce-type': 'a.b', 'ce-id': '1', 'ce-source': '/caf%C3%A9' };
    const inBinary = await client.ask({ method: 'POST', path: '/events', body: '', headers });
    assert.deepEqual(inBinary.json, { id: '/café 1', status: 'accepted' });
    assert.deepEqual((await client.post(event('1'))).json, { id: '1', status: 'accepted' });
    const rows = await eventually('all have landed', async () => {
      const events = (await store.count()) === 3 ? await store.events() : [];
      return events.length === 3 && events;
    });
    assert.deepEqual(
      rows.map(({ id, body }) => [id, (JSON.parse(body) as { id: string }).id]),
      [
        ['/café 1', '1'],
        ['/shop 1', '1'],
        ['1', '1'],
      ],
    );
    for (const { id, body } of rows) {
      const { json } = await client.find(id);
      assert.deepEqual([json?.['id'], json?.['status'], json?.['event']], [id, 'landed', JSON.parse(body)]);
    }
  });
});

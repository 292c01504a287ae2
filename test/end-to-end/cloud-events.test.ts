// CloudEvents 1.0 over HTTP as its users send it: the official SDK, the cases of the binding's conformance suite
// (cloudevents/conformance, http-protocol-binding.feature) and of its text (HTTP protocol binding 1.0.2), by either
// reader.
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { CloudEvent, emitterFor, HTTP, Mode, type Message } from 'cloudevents';
import { event, PATIENT, TestGateway, type Reply, type TestClient } from '../support/gateway.ts';
import { Pki, type ClientCertificate } from '../support/pki.ts';
import { Program } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { addsNothing, assertAlive, assertProblem } from '../support/verdicts.ts';
import { sqliteStore } from '../support/warehouse-store.ts';
import { askRaw, requestText } from '../support/wire.ts';

let redis: TestRedis;
let pki: Pki;
let producer: ClientCertificate;

before(async () => {
  [redis, pki] = await Promise.all([TestRedis.start(), Pki.create()]);
  producer = await pki.producer('one');
});

let made = 0;
/** An id that is new to the queue. */
const fresh = (): string => `event-${(made += 1)}`;

const ATTRIBUTES = { 'ce-specversion': '1.0', 'ce-type': 'com.example.someevent', 'ce-source': '/mycontext' };

const detailOf = (reply: Reply): string => String(reply.json?.['detail']);
const faultPaths = (reply: Reply): string[] =>
  (reply.json?.['errors'] as { path: string }[] | undefined)?.map(({ path }) => path) ?? [];

for (const reader of ['own', 'node']) {
  describe(`a gateway whose requests are read by the reader "${reader}"`, () => {
    let gateway: TestGateway;
    let client: TestClient;
    before(async () => {
      gateway = await TestGateway.start(redis, pki, { ...PATIENT, INGEST_HTTP_READER: reader });
      client = gateway.client(producer);
      atEnd(() => assertAlive(gateway));
    });

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

    /** The event as a look-up shows it. */
    async function shown(id: string): Promise<Record<string, unknown>> {
      const reply = await client.find(id);
      assert.equal(reply.status, 200, reply.body);
      return reply.json?.['event'] as Record<string, unknown>;
    }

    for (const mode of [Mode.BINARY, Mode.STRUCTURED]) {
      it(`takes what the official SDK emits in ${mode} mode, and gives it back as an event that the SDK reads`, async () => {
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
          // The SDK gives data of any other media type than JSON back as an array of the bytes' values.
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

    for (const contentType of ['application/json', 'application/json; charset=utf-8']) {
      it(`passes the conformance case of binary content mode (${contentType})`, { tags: ['long'] }, async () => {
        const id = fresh();
        const connection = await gateway.socket(producer);
        const reply = await askRaw(
          connection,
          requestText(
            'POST /events',
            [
              'ce-specversion: 1.0',
              'ce-type: com.example.someevent',
              'ce-time: 2018-04-05T03:56:24Z',
              `ce-id: ${id}`,
              'ce-source: /mycontext/subcontext',
              `Content-Type: ${contentType}`,
            ],
            '{\n    "message": "Hello World!"\n}',
          ),
        );
        assert.equal(reply.status, 202, reply.body);
        assert.deepEqual(await shown(id), {
          specversion: '1.0',
          type: 'com.example.someevent',
          time: '2018-04-05T03:56:24Z',
          id,
          source: '/mycontext/subcontext',
          datacontenttype: contentType,
          data: { message: 'Hello World!' },
        });
      });
    }

    for (const contentType of ['application/cloudevents+json', 'application/cloudevents+json; charset=utf-8']) {
      it(`passes the conformance case of structured content mode (${contentType})`, { tags: ['long'] }, async () => {
        const sent = {
          specversion: '1.0',
          type: 'com.example.someevent',
          time: '2018-04-05T03:56:24Z',
          id: fresh(),
          source: '/mycontext/subcontext',
          datacontenttype: 'application/json',
          data: { message: 'Hello World!' },
        };
        const body = JSON.stringify(sent, null, 4);
        assert.equal((await client.post(body, { 'content-type': contentType })).status, 202);
        assert.deepEqual(await shown(sent.id), sent);
      });
    }

    it('keeps data of any media type: JSON as it is, all else in base64', { tags: ['long'] }, async () => {
      const bytes = Buffer.from([0x89, 0x50, 0, 0xff]);
      for (const [contentType, body, member] of [
        ['application/vnd.shop.order+json', ' {"a" : 1.50} ', { data: { a: 1.5 } }],
        ['text/plain', 'hello', { data_base64: 'aGVsbG8=' }],
        ['application/xml; charset=latin1', '<a/>', { data_base64: 'PGEvPg==' }],
        ['image/png', bytes, { data_base64: bytes.toString('base64') }],
        [undefined, '"text"', { data: 'text' }],
        ['application/json', '', {}],
      ] as const) {
        const id = fresh();
        const reply = await binary(id, contentType, body);
        assert.equal(reply.status, 202, reply.body);
        const { data, data_base64: base64, ...attributes } = await shown(id);
        assert.deepEqual(
          { ...(data === undefined ? {} : { data }), ...(base64 === undefined ? {} : { data_base64: base64 }) },
          member,
        );
        assert.equal(attributes['datacontenttype'], contentType);
      }
    });

    it('stores what the equivalent structured event would be, so that one sent in either mode is one event', async () => {
      const id = fresh();
      assert.equal((await binary(id, 'application/json', '{"a":1}')).status, 202);
      const [entry] = (await redis.entries()).filter(({ fields }) => fields['body']?.includes(`"${id}"`));
      const structured = entry?.fields['body'] ?? '';
      const again = await client.post(structured, { 'content-type': 'application/cloudevents+json' });
      assert.deepEqual(again.json, { id, status: 'accepted', duplicate: true });
    });

    it('takes field names in any case, and decodes their values as the binding says', { tags: ['long'] }, async () => {
      const id = fresh();
      const connection = await gateway.socket(producer);
      const reply = await askRaw(
        connection,
        requestText('POST /events', [
          'CE-SpecVersion: 1.0',
          `Ce-Id: \t${id} `,
          'ce-TYPE: com.example.someevent',
          'ce-source: /mycontext',
          'ce-subject: Euro%20%E2%82%AC%20%F0%9F%98%80',
          'ce-quoted: "with \\"quotes\\" and %22"',
          'ce-lower: %e2%82%ac',
          'ce-once: %2541',
          'Content-Length: 0',
        ]),
      );
      assert.equal(reply.status, 202, reply.body);
      const { subject, quoted, lower, once } = await shown(id);
      assert.deepEqual(
        { subject, quoted, lower, once },
        { subject: 'Euro € 😀', quoted: 'with "quotes" and "', lower: '€', once: '%41' },
      );
    });

    it(
      'refuses what is no CloudEvent, with the path of each attribute that is wrong, and queues nothing',
      { tags: ['long'] },
      async () => {
        await addsNothing(redis, async () => {
          const ask = (headers: Readonly<Record<string, string>>): Promise<Reply> =>
            client.ask({ method: 'POST', path: '/events', body: '{}', headers });
          for (const [headers, paths] of [
            [{ 'ce-id': 'x' }, ['/specversion', '/source', '/type']],
            [{ ...ATTRIBUTES }, ['/id']],
            [{ ...ATTRIBUTES, 'ce-id': 'x', 'ce-specversion': '0.3' }, ['/specversion']],
            [{ ...ATTRIBUTES, 'ce-id': 'x', 'ce-subject': '%C0%A0' }, ['/subject']],
            [{ ...ATTRIBUTES, 'ce-id': 'x', 'ce-subject': 'caf\u00e9' }, ['/subject']],
            [{ ...ATTRIBUTES, 'ce-id': 'x', 'ce-datacontenttype': 'text/plain' }, ['/datacontenttype']],
            [{ ...ATTRIBUTES, 'ce-id': 'x'.repeat(257) }, ['/id']],
            [{ ...ATTRIBUTES, 'ce-id': '%00' }, ['/id']],
          ] as const) {
            const reply = await ask({ 'content-type': 'application/json', ...headers });
            assertProblem(reply, 400, 'INVALID_EVENT');
            assert.deepEqual(faultPaths(reply), paths, reply.body);
          }
          const noJson = await binary('x', 'application/json', '{},"id":"other"');
          assertProblem(noJson, 400, 'INVALID_EVENT');
          assert.deepEqual(faultPaths(noJson), ['/data']);
          const twice = await askRaw(
            await gateway.socket(producer),
            requestText('POST /events', [
              ...Object.entries(ATTRIBUTES).map(([name, value]) => `${name}: ${value}`),
              'ce-id: a',
              'CE-ID: b',
              'Content-Length: 0',
            ]),
          );
          assert.match(
            `${twice.status} ${twice.body}`,
            /^400 .*"path":"\/id","message":"must be sent once as header field ce-id"/,
          );
        });
      },
    );

    it(
      'tells the sender of a batch to send its events one by one, and refuses formats that it cannot read',
      { tags: ['long'] },
      async () => {
        for (const contentType of [
          'application/cloudevents-batch+json',
          'Application/CloudEvents-Batch+JSON;charset=UTF-8',
        ]) {
          const reply = await client.post(`[${event('a')}]`, { 'content-type': contentType });
          assertProblem(reply, 415, 'INVALID_EVENT');
          assert.match(detailOf(reply), /send each CloudEvent of the batch in a request of its own/);
        }
        const avro = await client.post('x', {
          ...ATTRIBUTES,
          'ce-id': 'x',
          'content-type': 'application/cloudevents+avro',
        });
        assertProblem(avro, 415, 'INVALID_EVENT');
        assertProblem(await binary('x', 'application/json', 'x', { 'content-encoding': 'br' }), 415, 'INVALID_EVENT');
      },
    );

    it('explains why a type is refused that CloudEvents allows', { tags: ['long'] }, async () => {
      for (const type of ['com.example/order', 'urn:example:order']) {
        const sent = JSON.stringify({ specversion: '1.0', id: 'x', source: '/a', type });
        const structured = await client.post(sent, { 'content-type': 'application/cloudevents+json' });
        for (const reply of [await binary('x', 'application/json', '{}', { 'ce-type': type }), structured]) {
          assertProblem(reply, 400, 'INVALID_EVENT');
          assert.deepEqual(faultPaths(reply), ['/type']);
          assert.match(detailOf(reply), /CloudEvents allows "\/" and ":" in a type/);
        }
        assert.doesNotMatch(detailOf(await client.post(sent)), /CloudEvents/);
      }
    });
  });
}

describe('INGEST_EVENT_ID=source+id', () => {
  let gateway: TestGateway;
  let client: TestClient;
  const store = sqliteStore();
  before(async () => {
    const env = { ...PATIENT, INGEST_EVENT_ID: 'source+id', INGEST_WAREHOUSE_URI: store.uri };
    const queue = await TestRedis.start();
    const consumer = new Program('ingest-consumer', {
      env: { INGEST_QUEUE_URI: queue.uri, INGEST_WAREHOUSE_URI: store.uri, INGEST_CONSUMER_ADDR: '127.0.0.1:0' },
    });
    await consumer.listening();
    gateway = await TestGateway.start(queue, pki, env);
    client = gateway.client(producer);
  });

  const structured = (source: unknown, id: string): Promise<Reply> =>
    client.post(JSON.stringify({ specversion: '1.0', id, source, type: 'a.b' }), {
      'content-type': 'application/cloudevents+json',
    });

  it('lands CloudEvents of one id and several sources as an event each, in either mode, found by both together', async () => {
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

  it('refuses a source that would make two events one, or an id that is too long', { tags: ['long'] }, async () => {
    for (const [source, id] of [
      [undefined, 'a'],
      ['', 'a'],
      [1, 'a'],
      ['two words', 'a'],
      ['/a', 'x'.repeat(254)],
      ['/\u0000', 'a'],
    ] as const) {
      const reply = await structured(source, id);
      assertProblem(reply, 400, 'INVALID_EVENT');
      assert.deepEqual(faultPaths(reply), ['/source'], reply.body);
    }
    assert.equal((await structured('/a', 'x'.repeat(253))).status, 202);
  });
});

import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import fc from 'fast-check';
import type { Gateway } from '../../lib/gateway/gateway.ts';
import type { Answer } from '../../lib/http/respond.ts';
import type { Submission } from '../../lib/ingest/queue.ts';
import type { Warehouse } from '../../lib/ingest/warehouse.ts';
import { anyCharacter } from '../support/any-character.ts';
import { event, TestClient } from '../support/client.ts';
import { gatewayInProcess } from '../support/gateway-in-process.ts';
import { MemoryQueue, MemoryQueueStore } from '../support/memory-queue.ts';
import { Pki } from '../support/pki.ts';

class RecordingQueue extends MemoryQueue {
  readonly submitted: Submission[] = [];

  override submit(submission: Submission): void {
    this.submitted.push(submission);
    super.submit(submission);
  }
}

describe('a gateway', () => {
  const store = new MemoryQueueStore();
  const queue = new RecordingQueue(store);
  const looks: Awaited<ReturnType<Warehouse['find']>>[] = [];
  let client: TestClient;
  let running: Gateway;
  let bySource: TestClient;

  before(async () => {
    const pki = await Pki.create();
    const started = async (more: Readonly<Record<string, string>> = {}): Promise<number> => {
      const warehouse: Pick<Warehouse, 'find'> = { find: async () => looks.shift() ?? { kind: 'unknown' } };
      const { gateway, port } = await gatewayInProcess(pki, more, { queue, warehouse });
      running ??= gateway;
      return port;
    };
    const clientOf = async (name: string, port: number): Promise<TestClient> =>
      new TestClient(port, pki.authority.certificate, await pki.producer(name), {});
    const port = await started();
    client = await clientOf('shop', port);
    bySource = await clientOf('shop', await started({ INGEST_EVENT_ID: 'source+id' }));
  });

  it('finds an event that lands and leaves the queue between the two queries', async () => {
    const landed = { kind: 'landed', text: event('late'), type: 'test.event', acceptedAtMs: 1, landedAtMs: 2 } as const;
    looks.push({ kind: 'unknown' }, { ...landed, traceparent: undefined });
    const answer = await client.ask({ path: '/events/late' });
    assert.equal(answer.status, 200);
    assert.equal((JSON.parse(answer.body) as { status: string }).status, 'landed');
    assert.equal((await client.ask({ path: '/events/late' })).status, 404);
  });

  it("keeps both a CloudEvent's id and its trace with its body", async () => {
    const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
    const body = JSON.stringify({ specversion: '1.0', source: '/shop', id: '7', type: 'order.placed' });
    const notesOf = async (headers: Readonly<Record<string, string>>, sent: string): Promise<Submission['notes']> => {
      queue.submitted.length = 0;
      assert.equal((await bySource.post(sent, headers)).status, 202);
      assert.equal(queue.submitted.length, 1);
      return queue.submitted[0]?.notes;
    };
    const cloudEvent = { 'content-type': 'application/cloudevents+json' };
    const trace = { traceparent, tracestate: 'vendor=1' };
    assert.deepEqual(await notesOf({ ...cloudEvent, ...trace }, body), { id: '/shop 7', ...trace });
    assert.deepEqual(await notesOf(cloudEvent, body.replace('"7"', '"8"')), { id: '/shop 8' });
    assert.deepEqual(await notesOf(trace, event('traced')), trace);
    assert.equal(await notesOf({ tracestate: 'vendor=1' }, event('untraced')), undefined);
    assert.equal(await notesOf({ traceparent: 'none' }, event('wrongly traced')), undefined);
  });

  it('answers 202 to any bytes only if the queue has them as a new event, and else a documented refusal', async () => {
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

  it('makes one text of its metrics for all requests at one moment, and a new one later', async () => {
    const { state } = running;
    const [one, two] = await Promise.all([state.metrics(), state.metrics()]);
    assert.equal(one, two);
    assert.equal((await client.post(event('counted'))).status, 202);
    const later = await state.metrics();
    const accepted = ({ body }: Answer): number => Number(/^ingest_accepted_total (\d+)$/m.exec(String(body))?.[1]);
    assert.equal(accepted(later), accepted(one) + 1);
  });
});

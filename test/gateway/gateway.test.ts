import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import fc from 'fast-check';
import type { Gateway } from '../../lib/gateway/gateway.ts';
import type { Outcome, Submission } from '../../lib/ingest/queue.ts';
import type { Warehouse } from '../../lib/ingest/warehouse.ts';
import { anyCharacter } from '../support/any-character.ts';
import { event, TestClient } from '../support/client.ts';
import { gatewayInProcess } from '../support/gateway-in-process.ts';
import { MemoryQueue, MemoryQueueStore } from '../support/memory-queue.ts';
import { Pki } from '../support/pki.ts';
import { eventually } from '../support/scope.ts';

class HeldQueue extends MemoryQueue {
  readonly held = new Map<string, Submission>();
  readonly submitted: Submission[] = [];
  holds = false;

  override submit(submission: Submission): void {
    this.submitted.push(submission);
    if (this.holds) this.held.set(submission.id, submission);
    else super.submit(submission);
  }
}

describe('a gateway', () => {
  const store = new MemoryQueueStore();
  const queue = new HeldQueue(store);
  const looks: Awaited<ReturnType<Warehouse['find']>>[] = [];
  let client: TestClient;
  let other: TestClient;
  let running: Gateway;

  let bySource: TestClient;

  before(async () => {
    const pki = await Pki.create();
    const started = async (more: Readonly<Record<string, string>> = {}): Promise<number> => {
      const environment = { INGEST_IN_FLIGHT_MAX: '2', ...more };
      const warehouse: Pick<Warehouse, 'find'> = { find: async () => looks.shift() ?? { kind: 'unknown' } };
      const { gateway, port } = await gatewayInProcess(pki, environment, { queue, warehouse });
      running ??= gateway;
      return port;
    };
    const clientOf = async (name: string, port: number): Promise<TestClient> =>
      new TestClient(port, pki.authority.certificate, await pki.producer(name), {});
    const port = await started();
    [client, other] = await Promise.all([clientOf('shop', port), clientOf('other', port)]);
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

  it('answers an event only after the queue, and refuses events over the limit in flight', async (t) => {
    queue.holds = true;
    t.after(() => queue.held.forEach((submission) => submission.settle('unavailable')));
    const answered: string[] = [];
    const settle = (id: string, outcome: Outcome): void => {
      queue.held.get(id)?.settle(outcome);
      queue.held.delete(id);
    };
    const posts = ['first', 'second'].map((id) =>
      client.post(event(id)).then(({ status }) => answered.push(`${id} ${status}`)),
    );
    await eventually('both are held', () => queue.held.size === 2);
    const refused = await other.post(event('third'));
    assert.deepEqual([refused.status, (JSON.parse(refused.body) as { code: string }).code], [503, 'QUEUE_OVERLOADED']);
    assert.deepEqual(answered, []);
    settle('second', 'accepted');
    await posts[1];
    assert.deepEqual(answered, ['second 202']);
    settle('first', 'unavailable');
    await posts[0];
    assert.deepEqual(answered, ['second 202', 'first 503']);
    queue.holds = false;
    assert.equal((await other.post(event('third'))).status, 202);
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
      fc.uint8Array({ maxLength: 2_000 }).map((array) => Buffer.from(array)),
      fc.json().map((text) => Buffer.from(text)),
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
    const accepted = (text: string): number => Number(/^ingest_accepted_total (\d+)$/m.exec(text)?.[1]);
    assert.equal(accepted(later.text), accepted(one.text) + 1);
  });
});

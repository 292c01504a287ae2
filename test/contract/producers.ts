// The contract suite for producers, which compares each answer with the API file. The gateway (responses.test.ts) and
// the fake gateway of ingest-client (send/fake-gateway.test.ts) must both pass it.
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { sendEvents, type SendEventsOptions } from '../../lib/send/client.ts';
import { scopeOf } from '../support/api-file.ts';
import type { Ask, Reply, TestClient } from '../support/client.ts';
import { everyOf } from '../support/scope.ts';
import { Transcript } from '../support/transcript.ts';

export interface ContractGateway {
  readonly options: SendEventsOptions;
  readonly client: TestClient;
  takeByAnother(id: string): Promise<void>;
  overQuota(body: string): Promise<Reply>;
  /** Makes the queue refuse all events until the returned function is called. */
  fail(): Promise<() => Promise<void>>;
}

const EVENT = { type: 'contract.event', data: { amount: '1.50' } };
const JSON_HEADERS = { 'content-type': 'application/json' };

function refused(reply: Reply, status: number, code: string, retryable: boolean): void {
  assert.equal(reply.status, status, reply.body);
  assert.equal(reply.headers['content-type'], 'application/problem+json');
  const { type, title, status: stated, detail, code: given, retryable: again } = reply.json ?? {};
  assert.deepEqual(
    { type, stated, given, again },
    { type: `urn:ingest:error:${code}`, stated: status, given: code, again: retryable },
  );
  assert.equal(typeof title, 'string');
  assert.equal(typeof detail, 'string');
  if (status === 429 || status === 503) assert.match(String(reply.headers['retry-after']), /^[1-9]\d*$/);
}

export function describeProducerContract(
  name: string,
  start: () => Promise<ContractGateway>,
  transcript = new Transcript(),
): void {
  describe(`the producers' contract, ${name}`, () => {
    let gateway: ContractGateway;
    const ask = async (asked: Ask): Promise<Reply> => {
      const reply = await gateway.client.ask(asked);
      transcript.hold(scopeOf(asked.method ?? 'GET', asked.path), reply);
      return reply;
    };
    const post = (body: string | Buffer, headers: Readonly<Record<string, string>> = JSON_HEADERS): Promise<Reply> =>
      ask({ method: 'POST', path: '/events', body, headers });
    const send = (events: readonly { id: string; type: string }[], more: Partial<SendEventsOptions> = {}) =>
      everyOf(sendEvents(events, { ...gateway.options, ...more }));

    before(async () => {
      gateway = await start();
    });

    it('accepts an event, calls it a duplicate after that, and keeps the first body of an id', async () => {
      const body = JSON.stringify({ id: 'contract-1', ...EVENT });
      const reply = await post(body);
      assert.deepEqual([reply.status, reply.headers['content-type']], [202, 'application/json']);
      const accepted = { id: 'contract-1', status: 'accepted' };
      assert.deepEqual(reply.json, accepted);
      assert.deepEqual((await post(body)).json, { ...accepted, duplicate: true });
      const other = await post(JSON.stringify({ id: 'contract-1', ...EVENT, data: 2 }));
      assert.deepEqual(other.json, { ...accepted, duplicate: true, differs: true });
      const found = await ask({ path: '/events/contract-1' });
      assert.deepEqual(found.json?.['event'], { id: 'contract-1', ...EVENT });
    });

    it("refuses another producer's id", async () => {
      await gateway.takeByAnother('contract-4');
      refused(await post(JSON.stringify({ id: 'contract-4', ...EVENT })), 409, 'EVENT_ID_CONFLICT', false);
      refused(await ask({ path: '/events/contract-4' }), 404, 'EVENT_NOT_FOUND', false);
      assert.equal((await ask({ method: 'HEAD', path: '/events/contract-4' })).status, 404);
    });

    it('shows an event that it accepted', async () => {
      const id = 'contract/5 é';
      assert.equal((await post(JSON.stringify({ id, ...EVENT }))).status, 202);
      const { status, json } = await ask({ path: `/events/${encodeURIComponent(id)}` });
      assert.equal(status, 200);
      const { acceptedAt, ...rest } = json ?? {};
      assert.ok(Math.abs(Date.parse(String(acceptedAt)) - Date.now()) < 60_000);
      assert.deepEqual(rest, { id, type: EVENT.type, status: 'accepted', event: { id, ...EVENT } });
    });

    it('answers 404 for an event that was never sent, and for other paths and methods', async () => {
      refused(await ask({ path: '/events/contract-never' }), 404, 'EVENT_NOT_FOUND', false);
      refused(await ask({ path: '/elsewhere' }), 404, 'ROUTE_NOT_FOUND', false);
      const reply = await ask({ path: '/events' });
      refused(reply, 405, 'METHOD_NOT_ALLOWED', false);
      assert.equal(reply.headers['allow'], 'POST');
    });

    // test/ingest/event.test.ts has all faults of a body.
    for (const [what, body, path, detail] of [
      ['is not JSON', '{"id":', '', /^the body is not JSON/],
      ['is empty', '', '', /^the body is empty$/],
      ['is no object', '[]', '', /^the body must be one JSON object: one event per request$/],
      ['is not UTF-8', Buffer.from('{"id":"caf\xe9","type":"t"}', 'latin1'), '', /^the body is not valid UTF-8$/],
      ['has neither id nor type', '{}', '/id', /^id is missing \(and 1 more, see errors\)$/],
    ] as const)
      it(`refuses a body that ${what}, and names the place`, async () => {
        const reply = await post(body);
        refused(reply, 400, 'INVALID_EVENT', false);
        const [first] = reply.json?.['errors'] as { path: string; message: string }[];
        assert.deepEqual([first?.path, typeof first?.message], [path, 'string']);
        assert.match(String(reply.json?.['detail']), detail);
      });

    it('accepts the longest id and type, and characters of any script', async () => {
      for (const event of [
        { id: '😀'.repeat(256), type: 't' },
        { id: 'contract-7', type: `a.${'b'.repeat(254)}` },
      ])
        assert.equal((await post(JSON.stringify(event))).status, 202);
    });

    it('refuses a body over the limit, another content type and a coding', async () => {
      const long = JSON.stringify({ id: 'contract-8', type: 't', text: 'x'.repeat(262_144) });
      refused(await post(long), 413, 'INVALID_EVENT', false);
      const body = JSON.stringify({ id: 'contract-8', ...EVENT });
      refused(await post(body, {}), 415, 'INVALID_EVENT', false);
      for (const coding of ['br', 'gzip, zstd']) {
        const coded = await post(body, { ...JSON_HEADERS, 'content-encoding': coding });
        refused(coded, 415, 'INVALID_EVENT', false);
        assert.equal(coded.headers['accept-encoding'], 'gzip, zstd');
      }
      for (const type of [
        '',
        'text/plain',
        'application/jsonx',
        'application/json, text/plain',
        'application/json; charset',
        'application/json; charset=latin1',
        'application/json;v=1;charset="utf-16"',
        'application/cloudevents+json; charset=utf8; CHARSET=us-ascii',
        'application/cloudevents-batch+json',
      ]) {
        const typed = await post(body, { 'content-type': type });
        refused(typed, 415, 'INVALID_EVENT', false);
        assert.equal(typed.headers['accept'], 'application/json, application/cloudevents+json');
      }
      for (const type of ['', ';', ';v=1', '; charset=utf-8', '; profile=a; charset="UTF-8"'])
        assert.equal((await post(body, { 'content-type': `application/json${type}` })).status, 202);
    });

    it('accepts a compressed body as the decoded event, and refuses a broken or too large one', async () => {
      for (const [coding, compress] of [
        ['gzip', gzipSync],
        ['Zstd', zstdCompressSync],
      ] as const) {
        const coded = (body: Buffer): Promise<Reply> => post(body, { ...JSON_HEADERS, 'content-encoding': coding });
        const event = { id: `contract-${coding}`, ...EVENT };
        assert.equal((await coded(compress(JSON.stringify(event)))).status, 202);
        assert.deepEqual((await ask({ path: `/events/${event.id}` })).json?.['event'], event);
        refused(await coded(Buffer.from(JSON.stringify(event))), 400, 'INVALID_COMPRESSION', false);
        refused(await coded(compress(' '.repeat(262_145))), 413, 'INVALID_EVENT', false);
      }
      const plain = JSON.stringify({ id: 'contract-identity', ...EVENT });
      assert.equal((await post(plain, { ...JSON_HEADERS, 'content-encoding': 'Identity' })).status, 202);
    });

    it('echoes the request id of the caller, or makes one', async () => {
      for (const requestId of ['mine-1', 'two words', 'caf\u00e9']) {
        const given = await ask({ path: '/events/x', headers: { 'x-request-id': requestId } });
        assert.equal(given.headers['x-request-id'], requestId);
      }
      const made = await ask({ path: '/events/x', headers: { 'x-request-id': '' } });
      assert.match(String(made.headers['x-request-id']), /^[0-9a-f-]{36}$/);
    });

    it('asks a producer over its quota to retry', async () => {
      const reply = await gateway.overQuota(JSON.stringify({ id: 'contract-9', ...EVENT }));
      refused(reply, 429, 'PRODUCER_RATE_LIMITED', true);
    });

    it('asks to retry while its queue is unavailable, and accepts the same event later', async () => {
      const back = await gateway.fail();
      const body = JSON.stringify({ id: 'contract-10', ...EVENT });
      refused(await post(body), 503, 'QUEUE_UNAVAILABLE', true);
      await back();
      assert.deepEqual((await post(body)).json, { id: 'contract-10', status: 'accepted' });
    });

    it('answers sendEvents with accepted, duplicate, differing and refused', async () => {
      const first = await send([
        { id: 'contract-11', ...EVENT },
        { id: '', ...EVENT },
      ]);
      const accepted = first.find(({ kind }) => kind === 'accepted');
      assert.ok(accepted?.kind === 'accepted' && !accepted.duplicate && accepted.requestId !== undefined);
      const bad = first.find(({ kind }) => kind === 'refused');
      assert.ok(bad?.kind === 'refused' && bad.code === 'INVALID_EVENT' && !bad.retryable);
      const [again] = await send([{ ...EVENT, id: 'contract-11', type: 'contract.other' }]);
      assert.ok(again?.kind === 'accepted' && again.duplicate && again.differs);
    });
  });
}

import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { QueueFailed } from '../../lib/ingest/queue-admin.ts';
import { WarehouseFailed } from '../../lib/ingest/warehouse-admin.ts';
import { AttentionNeeded, type Session } from '../../lib/admin/session.ts';
import { InProcess, landing, poison } from './in-process.ts';
import { eventually, temporaryFolder } from '../support/scope.ts';

const lose = async (admin: InProcess): Promise<void> => {
  await admin.warehouse.close();
  for (const end of ['', '-wal', '-shm']) rmSync(admin.path + end, { force: true });
};

describe('status', () => {
  const admin = new InProcess();

  it('shows queue and warehouse, as JSON and as text', async (t) => {
    await admin.accept(t, 'one', '{"id":"one","type":"t"}');
    await admin.warehouse.land([landing('a')]);
    await admin.warehouse.quarantine([poison('1-1'), poison('1-2'), poison('1-3', { reason: 'id_conflict: x' })]);
    const { out: json } = await admin.assertShows(t, 'status --json', AttentionNeeded);
    const { at, queue, warehouse } = JSON.parse(json) as {
      at: string;
      queue: { partitions: { unread: number }[]; away: string[] };
      warehouse: unknown;
    };
    assert.match(at, /^20.*Z$/);
    assert.deepEqual([queue.away, queue.partitions[0]?.unread], [[], 1]);
    const quarantine = [
      { code: 'invalid_event', rows: 2 },
      { code: 'id_conflict', rows: 1 },
    ];
    assert.deepEqual(warehouse, { events: 1, estimated: false, quarantine });
    const { out } = await admin.run(t, 'status');
    for (const shown of [/append-only file is off/, /ingest +1 /, /1 event, 3 quarantine rows/, /1 +id_conflict/])
      assert.match(out, shown);
    const server = admin.redis.uri.replace('redis://', '');
    const two = { queue: admin.queue(t, `dispatcher://${server},${server}`) };
    await admin.assertShows(
      t,
      'status --json',
      0,
      /"servers":\[\{[^{}]*"partitions":\["ingest-a","ingest-b"\]/,
      '',
      two,
    );
  });

  it('needs attention while an event that was read or not waits for five minutes, or has no consumer', async (t) => {
    const [read, unread] = [305, 302].map((ageS) => `${Date.now() - ageS * 1_000}-0`);
    const add = (entry = '') =>
      admin.redis.command('XADD', 'ingest', entry, 'producer', 'p', 'body', '{"id":"a","type":"t"}');
    const consumer = (heartbeatMs: number, name: string) =>
      admin.redis.command('ZADD', '{ingest}:replicas', String(Date.now() + heartbeatMs), name);
    await admin.redis.command('XGROUP', 'CREATE', 'ingest', 'warehouse', '0', 'MKSTREAM');
    await admin.assertShows(t, 'status', 0);
    await add(read);
    await admin.redis.command('XREADGROUP', 'GROUP', 'warehouse', 'dead', 'STREAMS', 'ingest', '>');
    await consumer(-60_000, 'dead');
    await admin.assertShows(
      t,
      'status',
      AttentionNeeded,
      /^ {2}ingest .* 0 +1 /m,
      '1 event of ingest waits, and no consumer has a heartbeat',
    );
    await consumer(60_000, 'live');
    const old = /^the oldest of 1 event of ingest has waited for \d+ min \d+ s$/;
    await admin.assertShows(t, 'status', AttentionNeeded, undefined, old);
    await admin.redis.command('XACK', 'ingest', 'warehouse', read ?? '');
    await add(unread);
    await admin.assertShows(t, 'status', AttentionNeeded, undefined, old);
    await admin.redis.command('DEL', 'ingest');
    await admin.redis.command('XGROUP', 'CREATE', 'ingest', 'warehouse', '0', 'MKSTREAM');
    await add(`${Date.now() - 30_000}-0`);
    await admin.assertShows(t, 'status', 0);
  });

  it('needs attention if fewer replicas acknowledge than a gateway or this setting requires, but not before a failure', async (t) => {
    const copy = (state: string, lagSeconds: number) => ({ address: '127.0.0.1:1', state, lagSeconds });
    const [live, late, loading] = [copy('online', 3), copy('online', 4), copy('wait_bgsave', 0)];
    const silent = '1 of 2 replicas do not acknowledge, and 2 must: gateways refuse events';
    const changed = (more: object, ofPartition: object = {}): Partial<Session> => {
      const { queue } = admin.session(t);
      const streams = queue.streams.map((stream) => ({
        ...{ name: stream.name, close: () => stream.close() },
        status: async () => {
          const found = await stream.status();
          const partition = { ...found.partition, ...ofPartition };
          return { ...found, partition, server: { ...found.server, name: 'one', ...more } };
        },
      }));
      return { queue: { ...queue, streams } as unknown as Session['queue'] };
    };
    for (const [copies, required, configured, troubles] of [
      [[live, live], 2, undefined, []],
      [[live, late], 2, undefined, [silent]],
      [[live, loading], 1, 2, [silent]],
      [[live, late], 2, 1, [silent]],
      [[live, late], 1, 1, []],
      // Replicas that are not connected are shown, but not called silent.
      [[live], 2, undefined, []],
    ] as const) {
      const change = { ...changed({ copies, required }), replicasRequired: configured };
      const exit = troubles.length === 0 ? 0 : AttentionNeeded;
      await admin.assertShows(t, 'status', exit, undefined, troubles.map((text) => `one: ${text}`).join(), change);
    }
    const { warehouse } = admin.session(t);
    const counts = () => Promise.resolve({ events: 1_234_567, estimated: true, quarantine: [] });
    const change = changed(
      { memoryBytes: 2_621_440, memoryLimitBytes: 8 * 2 ** 30 },
      { unread: undefined, oldestUnlandedMs: 3_905_000 },
    );
    await admin.assertShows(
      t,
      'status',
      AttentionNeeded,
      / one, 2\.5 MiB of 8\.0 GiB of [^]*\n {2}ingest .* unknown +0 +1 h 5 min\n[^]* about 1,234,567 events, /,
      'an unknown number of events of ingest wait, and no consumer has a heartbeat',
      { ...change, warehouse: { ...warehouse, counts } },
    );
    await lose(admin);
    await admin.assertShows(
      t,
      'status',
      WarehouseFailed,
      undefined,
      undefined,
      changed({ copies: [late], required: 1 }),
    );
  });

  it('shows the queue that answers, and fails if another one does not', async (t) => {
    await admin.accept(t, 'one', '{"id":"one","type":"t"}');
    const queue = admin.queue(t, `dispatcher://127.0.0.1:${admin.redis.port},127.0.0.1:1`);
    const shown = /^ {2}unavailable: .*127\.0\.0\.1:1\b[^]*^ {2}ingest-a +0 /m;
    await eventually('the first queue is there', () =>
      admin.assertShows(t, 'status', QueueFailed, shown, /127\.0\.0\.1:1\b/, { queue }).then(() => true),
    );
  });

  it('fails and shows both as unavailable if neither answers', async (t) => {
    await lose(admin);
    const both = /queue .*\n {2}unavailable: .*\n\nwarehouse .*\n {2}unavailable: there is no such file/;
    await admin.assertShows(t, 'status', QueueFailed, both, undefined, { queue: admin.away(t) });
    await admin.assertShows(t, 'status --json', WarehouseFailed, /"warehouse":\{"error":"there is no such file/);
  });
});

describe('event, quarantine list and quarantine show', () => {
  const admin = new InProcess();

  it('shows an event of any producer in each place', async (t) => {
    await admin.accept(t, 'one', '{"id":"one","type":"t","n":1}');
    await admin.warehouse.land([landing('one', { body: Buffer.from('{"id":"one",\n"type":"t"}') })]);
    await admin.warehouse.quarantine([poison('1-1', { id: 'one', producer: 'th\u001bief', body: Buffer.of(0, 255) })]);
    const queue = /^queue: ingest, entry [\d-]+, .*\n.* shop, accepted <time>\n {2}\{"id":"one",.*\}\n\n/;
    const warehouse = /warehouse: landed <time>\n.* shop, .*\n {2}\{"id":"one",\n {2}"type":"t"\}\n\n/;
    const quarantine = /quarantine: q\/ingest\/1-1, .*\n.*\n {2}producer th\\u001bief, .*\n {2}00ff\n$/;
    await admin.assertShows(t, 'event one', 0, new RegExp(queue.source + warehouse.source + quarantine.source));
    const json = JSON.parse((await admin.run(t, 'event one --json')).out) as Record<string, Record<string, unknown>>;
    assert.deepEqual([json['queue']?.['state'], json['warehouse']?.['erased']], ['unread', false]);
    const [{ entry } = assert.fail()] = await admin.redis.entries();
    const [group, ingest] = ['warehouse', 'ingest'];
    const steps: readonly (readonly string[])[] = [
      ['not read by a consumer yet', 'PING'],
      ['held by a consumer', 'XREADGROUP', 'GROUP', group, 'one', 'STREAMS', ingest, '>'],
      ['acknowledged by a consumer', 'XACK', ingest, group, entry],
    ];
    for (const [state, name = '', ...args] of steps) {
      await admin.redis.command(name, ...args);
      await admin.assertShows(t, 'event one', 0, new RegExp(`^queue: ingest, entry ${entry}, ${state}\n`));
    }
    assert.deepEqual((json['quarantine'] as unknown as { bodyHex: string }[])[0]?.bodyHex, '00ff');
  });

  it('shows the place that answers, and fails if the other one does not', async (t) => {
    await admin.accept(t, 'one', '{"id":"one","type":"t"}');
    await admin.warehouse.land([landing('one')]);
    await admin.assertShows(t, 'event one', QueueFailed, /^warehouse: landed /, undefined, { queue: admin.away(t) });
    await lose(admin);
    await admin.assertShows(t, 'event one --json', WarehouseFailed, /"queue":\{"stream":"ingest",/);
    await admin.assertShows(t, 'event none', WarehouseFailed, '');
  });

  it('lists rows, the newest first, up to a limit, by reason and time, and shows one', async (t) => {
    await admin.warehouse.quarantine([poison('1-1', { id: 'one', traceparent: 'trace' })]);
    for (const at of [2, 3]) await admin.warehouse.quarantine([poison(`${at}-1`, { reason: 'id_conflict: x' })]);
    const head = /^entry +since +body +producer +id +reason\n/.source;
    const two = new RegExp(`${head}q/ingest/3-1 .*\nq/ingest/2-1 .*\n$`);
    await admin.assertShows(
      t,
      'quarantine list --limit 2',
      0,
      two,
      'there are older rows; --limit shows up to 10,000\n',
    );
    await admin.assertShows(
      t,
      'quarantine list --limit 3',
      0,
      /\nq\/ingest\/1-1 +<time> +1 B +shop +one +invalid_event: x\n$/,
      '',
    );
    await admin.assertShows(
      t,
      'quarantine list --reason invalid_event --since 1h',
      0,
      new RegExp(`${head}q/ingest/1-1 .*\n$`),
    );
    await admin.assertShows(t, 'quarantine list', 1, undefined, '', { stopped: AbortSignal.abort() });
    const row = { id: 'one', traceparent: 'trace', producer: 'shop', reason: 'invalid_event: x', body: '{' };
    const shown = { ...row, entry: 'q/ingest/1-1', acceptedAt: '<time>', quarantinedAt: '<time>' };
    await admin.assertShows(t, 'quarantine show q/ingest/1-1 --json', 0, shown);
    await admin.assertShows(t, 'quarantine show q/ingest/1-1', 0, /^quarantine: q\/ingest\/1-1, since /);
  });

  for (const [line, out, err] of [
    ['event none', '', 'no event with this id is in the queue, the warehouse or the quarantine\n'],
    ['quarantine list --reason id --json', '[]\n', 'no such rows in the quarantine\n'],
    ['quarantine list --since 2100-01-01', '', 'no such rows in the quarantine\n'],
    ['quarantine show none --json', 'null\n', 'the quarantine has no row with this entry\n'],
  ] as const)
    it(`exits with 1 if it finds nothing: ${line}`, async (t) => {
      await admin.warehouse.quarantine([poison('1-1')]);
      await admin.assertShows(t, line, 1, out, err);
    });
});

describe('schema try', () => {
  const admin = new InProcess();
  const files = temporaryFolder();
  const schema = (name: string, text: string): string => {
    writeFileSync(join(files, name), text);
    return join(files, name);
  };

  it('shows landed events that a schema would refuse, and exits with 1 if there are any', async (t) => {
    const event = (id: string, data: object) => ({
      ...landing(id),
      body: Buffer.from(JSON.stringify({ id, ...data })),
    });
    const erased = { ...landing('gone'), body: Buffer.from('{"id":"gone","type":"t","erased":true}') };
    await admin.warehouse.land([event('good', { n: 1 }), event('b\u202ead', { n: 'x' }), event('worse', {}), erased]);
    const rules = '{"required":["n"],"properties":{"n":{"type":"integer"}}}';
    const strict = schema('t.json', rules);
    const refused = [
      '2 of 3 events of t since <time> would be refused',
      '  b\\u202ead  /n must be integer',
      "  worse  must have required property 'n'",
    ];
    await admin.assertShows(t, `schema try ${strict} --since 1h`, 1, `${refused.join('\n')}\n`);
    const landedAt = (hours: number): unknown =>
      admin.sql(`UPDATE events SET landed_at = '${new Date(Date.now() - hours * 3_600_000).toISOString()}'`);
    landedAt(23);
    await admin.assertShows(t, `schema try ${strict} --json`, 1, /"type":"t",.*"events":3,"refused":2,/);
    landedAt(25);
    await admin.assertShows(t, `schema try ${strict} --json`, 1, /"type":"t",.*"events":0,/);
    landedAt(0);
    const lenient = schema('t.json', '{"type":"object"}');
    const quarantined = [event('cured', { type: 't', n: '1' }), event('other', { type: 'u' })].map((one) => ({
      ...{ ...one, entry: `q/ingest/1-${one.id}`, reason: 'schema: /n must be integer' },
    }));
    await admin.warehouse.quarantine(quarantined);
    await admin.assertShows(t, `schema try ${lenient}`, 0, /^1 of 1 event quarantined by a schema would land$/m);
    const stopped = AbortSignal.abort();
    await admin.assertShows(t, `schema try ${lenient}`, 1, undefined, /^interrupted: newer events/, { stopped });
    const stays = /^0 of 1 event quarantined by a schema would land\n {2}cured {2}\/n must be integer$/m;
    await admin.assertShows(t, `schema try ${schema('t.json', rules)}`, 1, stays);
    admin.sql("UPDATE events_quarantine SET quarantined_at = '2026-01-01T00:00:00.000Z'");
    const none = /^2 of 3 events of t since .* would be refused\n.*\n.*\n$/;
    await admin.assertShows(t, `schema try ${strict}`, 1, none);
    admin.sql('DELETE FROM events');
    await admin.assertShows(
      t,
      `schema try ${schema('t.json', '{}')} --since 2026-01-01`,
      0,
      /^0 of 0 events [^]*^1 of 1 event quar/m,
    );
  });

  it('reports a type without events and an unusable file', async (t) => {
    const none = /no event of the type order\.paid has landed since/;
    await admin.assertShows(t, `schema try ${schema('order.paid.json', '{}')}`, 1, undefined, none);
    await admin.assertShows(t, `schema try ${schema('bad.json', '{')}`, Error, '', /bad\.json: not JSON/);
  });
});

import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { QueueFailed } from '../../lib/ingest/queue-admin.ts';
import { WarehouseFailed } from '../../lib/ingest/warehouse-admin.ts';
import { InProcess, landing, poison } from './in-process.ts';
import { eventually, temporaryFolder } from '../support/scope.ts';

const TIME = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g;
const timeless = (text: string): string => text.replaceAll(TIME, '<time>');

describe('status', () => {
  const admin = new InProcess();

  it('shows queue and warehouse, as JSON and as text', async (t) => {
    await admin.accept(t, 'one', '{"id":"one","type":"t"}');
    await admin.warehouse.land([landing('a')]);
    await admin.warehouse.quarantine([poison('1-1'), poison('1-2'), poison('1-3', { reason: 'id_conflict: x' })]);
    const found = JSON.parse((await admin.run(t, 'status --json')).out) as {
      at: string;
      queue: { partitions: { events: number; unread: number }[]; away: string[] };
      warehouse: unknown;
    };
    assert.match(found.at, TIME);
    assert.deepEqual(found.queue.away, []);
    assert.equal(found.queue.partitions[0]?.unread, 1);
    const quarantine = [
      { code: 'invalid_event', rows: 2 },
      { code: 'id_conflict', rows: 1 },
    ];
    assert.deepEqual(found.warehouse, { events: 1, estimated: false, quarantine });
    const { out } = await admin.run(t, 'status');
    for (const shown of [/append-only file is off/, /ingest +1 /, /1 event, 3 quarantine rows/, /1 +id_conflict/])
      assert.match(out, shown);
  });

  it('shows the queue that answers, and fails if another one does not', async (t) => {
    await admin.accept(t, 'one', '{"id":"one","type":"t"}');
    const queue = admin.queue(t, `dispatcher://127.0.0.1:${admin.redis.port},127.0.0.1:1`);
    await eventually('the one that is there is seen', async () => {
      const text = await admin.run(t, 'status', { queue });
      assert.ok(text.failure instanceof QueueFailed, String(text.failure));
      assert.match(text.failure.message, /127\.0\.0\.1:1\b/);
      assert.match(text.out, /^ {2}ingest-a +0 /m);
      assert.match(text.out, /^ {2}unavailable: .*127\.0\.0\.1:1/m);
      return true;
    });
  });

  it('fails and shows both as unavailable if neither answers', async (t) => {
    const queue = admin.away(t);
    await admin.warehouse.close();
    for (const end of ['', '-wal', '-shm']) rmSync(admin.path + end, { force: true });
    const { failure, out } = await admin.run(t, 'status', { queue });
    assert.ok(failure instanceof QueueFailed, 'the queue before the warehouse');
    assert.match(out, /queue .*\n {2}unavailable: .*\n\nwarehouse .*\n {2}unavailable: there is no such file/);
    const warehouseOnly = await admin.run(t, 'status --json');
    assert.ok(warehouseOnly.failure instanceof WarehouseFailed);
    assert.match(warehouseOnly.out, /"warehouse":\{"error":"there is no such file/);
  });
});

describe('event, quarantine list and quarantine show', () => {
  const admin = new InProcess();

  it('shows an event of any producer in each place', async (t) => {
    await admin.accept(t, 'one', '{"id":"one","type":"t","n":1}');
    await admin.warehouse.land([landing('one', { body: Buffer.from('{"id":"one",\n"type":"t"}') })]);
    await admin.warehouse.quarantine([poison('1-1', { id: 'one', producer: 'th\u001bief', body: Buffer.of(0, 255) })]);
    const { code, out } = await admin.run(t, 'event one');
    assert.equal(code, 0);
    const places = timeless(out).split('\n\n');
    assert.match(places[0] ?? '', /^queue: ingest, entry [\d-]+, .*\n.* shop, accepted <time>\n {2}\{"id":"one",.*\}$/);
    assert.match(places[1] ?? '', /^warehouse: landed <time>\n.* shop, .*\n {2}\{"id":"one",\n {2}"type":"t"\}$/);
    assert.match(places[2] ?? '', /^quarantine: q\/ingest\/1-1, .*\n.*\n {2}producer th\\u001bief, .*\n {2}00ff\n$/);
    const json = JSON.parse((await admin.run(t, 'event one --json')).out) as Record<string, Record<string, unknown>>;
    assert.equal(json['queue']?.['state'], 'unread');
    assert.equal(json['warehouse']?.['erased'], false);
    assert.deepEqual((json['quarantine'] as unknown as { bodyHex: string }[])[0]?.bodyHex, '00ff');
  });

  it('shows the place that answers, and fails if the other one does not', async (t) => {
    await admin.accept(t, 'one', '{"id":"one","type":"t"}');
    await admin.warehouse.land([landing('one')]);
    const dead = await admin.run(t, 'event one', { queue: admin.away(t) });
    assert.ok(dead.failure instanceof QueueFailed);
    assert.match(dead.out, /^warehouse: landed /);
    await admin.warehouse.close();
    for (const end of ['', '-wal', '-shm']) rmSync(admin.path + end, { force: true });
    const lost = await admin.run(t, 'event one --json');
    assert.ok(lost.failure instanceof WarehouseFailed);
    assert.match(lost.out, /"queue":\{"stream":"ingest",/);
    assert.deepEqual((await admin.run(t, 'event none')).out, '');
  });

  it('exits with 1 for an unknown id', async (t) => {
    const { code, out, err } = await admin.run(t, 'event none');
    assert.deepEqual([code, out], [1, '']);
    assert.match(err, /no event with this id/);
  });

  it('lists the newest rows first, up to the limit, and reports that there are more', async (t) => {
    for (const at of [1, 2, 3]) await admin.warehouse.quarantine([poison(`${at}-1`, { id: `e${at}` })]);
    const { code, out, err } = await admin.run(t, 'quarantine list --limit 2');
    assert.equal(code, 0);
    const lines = timeless(out).split('\n');
    assert.match(lines[0] ?? '', /^entry +since +body +producer +id +reason$/);
    assert.deepEqual(
      lines.slice(1).map((line) => line.split(/ +/)[0]),
      ['q/ingest/3-1', 'q/ingest/2-1', ''],
    );
    assert.match(err, /there are older rows; --limit shows up to 10,000/);
    const all = await admin.run(t, 'quarantine list --limit 3');
    assert.deepEqual([all.code, all.err, all.out.split('\n').length], [0, '', 5]);
  });

  it('lists by reason, and exits with 1 without a row', async (t) => {
    await admin.warehouse.quarantine([poison('1-1'), poison('1-2', { reason: 'id_conflict: x' })]);
    const { out } = await admin.run(t, 'quarantine list --json --reason id_conflict --since 1h');
    assert.deepEqual(out.match(/q\/ingest\/\d-\d/g), ['q/ingest/1-2']);
    for (const line of ['--json --reason id', '--since 2100-01-01'])
      assert.equal((await admin.run(t, `quarantine list ${line}`)).code, 1, line);
  });

  it('shows one row, and exits with 1 if it does not exist', async (t) => {
    await admin.warehouse.quarantine([poison('1-1', { id: 'one', traceparent: 'trace' })]);
    const { code, out } = await admin.run(t, 'quarantine show q/ingest/1-1 --json');
    assert.equal(code, 0);
    assert.deepEqual(JSON.parse(timeless(out)), {
      entry: 'q/ingest/1-1',
      id: 'one',
      traceparent: 'trace',
      producer: 'shop',
      reason: 'invalid_event: x',
      acceptedAt: '<time>',
      quarantinedAt: '<time>',
      body: '{',
    });
    assert.match((await admin.run(t, 'quarantine show q/ingest/1-1')).out, /^quarantine: q\/ingest\/1-1, since /);
    const none = await admin.run(t, 'quarantine show none --json');
    assert.deepEqual([none.code, none.out], [1, 'null\n']);
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
    const tried = await admin.run(t, `schema try ${strict} --since 1h`);
    assert.equal(tried.code, 1);
    assert.match(timeless(tried.out), /^2 of 3 events of t since <time> would be refused\n/);
    assert.match(tried.out, /^ {2}b\\u202ead {2}\/n must be integer$/m);
    assert.match(tried.out, /^ {2}worse {2}must have required property 'n'$/m);
    const json = JSON.parse((await admin.run(t, `schema try ${strict} --json`)).out) as Record<string, unknown>;
    assert.deepEqual([json['type'], json['events'], json['refused']], ['t', 3, 2]);
    const lenient = schema('t.json', '{"type":"object"}');
    const quarantined = [event('cured', { type: 't', n: '1' }), event('other', { type: 'u' })].map((one) => ({
      ...{ ...one, entry: `q/ingest/1-${one.id}`, reason: 'schema: /n must be integer' },
    }));
    await admin.warehouse.quarantine(quarantined);
    const cured = await admin.run(t, `schema try ${lenient}`);
    assert.match(cured.out, /^1 of 1 event quarantined by a schema would land$/m);
    assert.equal(cured.code, 0);
    const again = await admin.run(t, `schema try ${schema('t.json', rules)}`);
    assert.match(again.out, /^0 of 1 event quarantined by a schema would land\n {2}cured {2}\/n must be integer$/m);
  });

  it('reports a type without events and an unusable file', async (t) => {
    const none = await admin.run(t, `schema try ${schema('order.paid.json', '{}')}`);
    assert.deepEqual([none.code, /no event of the type order\.paid has landed since/.test(none.err)], [1, true]);
    const broken = await admin.run(t, `schema try ${schema('order.lost.json', '{')}`);
    assert.match(String(broken.failure), /order\.lost\.json: not JSON/);
  });
});

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { metricOf, Pipeline } from '../support/pipeline.ts';
import { startPostgres, type PostgresServer } from '../support/postgres.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { postgresStore, sqliteStore, type StoredEntry, type WarehouseStore } from '../support/warehouse-store.ts';

const PRODUCER = 'urn:ingest:producer:development';
const event = (id: string): string => JSON.stringify({ id, type: 'order.paid' });

interface Poison {
  readonly members: readonly string[];
  readonly reason: RegExp;
  readonly id: string | null;
  readonly body: string;
}

const poison = (producer: string, body: string, reason: RegExp, id: string | null = null): Poison => ({
  members: ['producer', producer, 'body', body],
  reason,
  id,
  body,
});

const DEEP = `{"id":"deep","type":"t","a":${'['.repeat(70)}${']'.repeat(70)}}`;

/** test/ingest/event.test.ts has every kind of body that is not an event. */
const NO_EVENTS: readonly (readonly [body: string, id: string | null])[] = [
  [' ', null],
  ['[{"id":"in-a-list","type":"t"}]', null],
  ['{"id":"two","type":"t"}{"id":"three","type":"t"}', null],
  ['{"id":"control","type":"t","n":"\u0001"}', null],
  ['\ufeff{"id":"mark","type":"t"}', null],
  ['{"id":["list"],"type":"t"}', null],
  ['{"id":"nul\\u0000","type":"t"}', null],
  ['{"id":"lone\\ud800","type":"t"}', null],
  [`{"id":"long-type","type":"${'t'.repeat(257)}"}`, 'long-type'],
];

const POISON: readonly Poison[] = [
  ...NO_EVENTS.map(([body, id]) => poison(PRODUCER, body, /^invalid_event: /, id)),
  poison(PRODUCER, '{"id":"half"', /^invalid_event: /),
  poison(PRODUCER, '', /^invalid_event: /),
  poison(PRODUCER, '{"id":"no-type"}', /^invalid_event: /, 'no-type'),
  poison(PRODUCER, DEEP, /^invalid_event: /, 'deep'),
  poison('a\0b', event('nul'), /^refused_by_warehouse: /, 'nul'),
  poison('other', event('good-0'), /^id_conflict: /, 'good-0'),
  { members: ['producer', PRODUCER], reason: /^invalid_entry: .*body/, id: null, body: '' },
  { members: ['body', event('nobody')], reason: /^invalid_entry: .*producer/, id: 'nobody', body: event('nobody') },
  { members: ['something', 'else'], reason: /^invalid_entry: /, id: null, body: '' },
  ...['q/ingest/\0-1', 'long/'.repeat(2_000)].map((replayOf) => ({
    ...poison(PRODUCER, '{"id":', /^invalid_event: /),
    members: ['producer', PRODUCER, 'body', '{"id":', 'replayOf', replayOf],
  })),
];

/** Values of `replayOf` that do not name a quarantine row. Good events with these values must land. */
const NO_ROWS = ['q/ingest/\0-1', '', 'x'.repeat(10_000)];

/** The entries must be younger than the retention, because a gateway trims older ones. */
const TIME_MS = Date.now();
const entryOf = (at: number): string => `${TIME_MS}-${2 * at + 2}`;
const withoutQueue = (entry: string): string =>
  entry.replace(/^[0-9a-f-]{36}[/]ingest[/]/, '').replace(/~[0-9a-f]{16}$/, '');

function describePoison(name: string, openStore: () => Promise<WarehouseStore>): void {
  describe(`poison on the way into ${name}`, () => {
    let store: WarehouseStore;
    let pipeline: Pipeline;
    let entries: ReadonlyMap<string, StoredEntry>;

    before(async () => {
      store = await openStore();
      const redis = await TestRedis.start(['--appendonly', 'no']);
      // The entries exist before the consumer starts, so the consumer reads them as one batch.
      await redis.command('XADD', 'ingest', `${TIME_MS}-1`, 'producer', PRODUCER, 'body', event('good-0'));
      for (const [at, { members }] of POISON.entries()) {
        await redis.command('XADD', 'ingest', entryOf(at), ...members);
        await redis.command(
          'XADD',
          'ingest',
          `${TIME_MS}-${2 * at + 3}`,
          'producer',
          PRODUCER,
          'body',
          event(`good-${at + 1}`),
          'replayOf',
          NO_ROWS[at % NO_ROWS.length] ?? '',
        );
      }
      pipeline = await Pipeline.start({ queueUri: redis.uri, warehouseUri: store.uri });
      await eventually(
        'all of it is in quarantine',
        async () => (await store.count()) > POISON.length && (await store.quarantine()).length === POISON.length,
      );
      entries = new Map((await store.quarantine()).map((row) => [withoutQueue(row.entry), row]));
    });
    after(() => pipeline.stop());

    it('goes to quarantine with its reason, bytes and producer, and nothing else does', () => {
      assert.deepEqual([...entries.keys()].sort(), POISON.map((_, at) => entryOf(at)).sort());
      for (const [at, { reason, id, body }] of POISON.entries()) {
        const row = entries.get(entryOf(at));
        assert.match(row?.reason ?? '', reason);
        assert.equal(row?.id, id);
        assert.equal(row?.body.toString(), body);
      }
    });

    it('does not prevent its neighbors from landing', async () => {
      const ids = (await store.events()).map((row) => row.id).sort();
      assert.deepEqual(ids, Array.from({ length: POISON.length + 1 }, (_, at) => `good-${at}`).sort());
    });

    it('is counted by reason', async () => {
      const [replica = assert.fail()] = pipeline.replicas;
      const counts = { invalid_event: 6 + NO_EVENTS.length, invalid_entry: 3, id_conflict: 1, refused_by_warehouse: 1 };
      for (const [reason, count] of Object.entries(counts))
        await eventually(
          `${count} are counted as ${reason}`,
          async () => (await metricOf(replica, `ingest_quarantined_total{reason="${reason}"}`)) === count,
        );
    });
  });
}

describePoison('SQLite', async () => sqliteStore());

describe('with a server', { tags: ['long'] }, () => {
  let postgres: PostgresServer;
  before(async () => {
    postgres = await startPostgres();
  });
  after(() => postgres.stop());
  describePoison('PostgreSQL', () => postgresStore(postgres));
});

// Kills at random while events arrive: nothing that was answered 202 is lost, and nothing stands in the warehouse twice.
//
// The short form runs with the suite: each kind of process is killed at least once. `make chaos` runs the long form:
// CHAOS_ROUNDS kills, until CHAOS_SECONDS are over. CHAOS_SEED repeats the order of a run that its report names.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Pipeline, type Found } from '../support/pipeline.ts';
import { startPrivatePostgres, type PrivatePostgres } from '../support/postgres.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { postgresStore, type WarehouseStore } from '../support/warehouse-store.ts';

const setting = (name: string, fallback: number): number => Number(process.env[name] ?? fallback);
const ROUNDS = setting('CHAOS_ROUNDS', 5);
const SECONDS = setting('CHAOS_SECONDS', 60);
const SEED = setting('CHAOS_SEED', Math.trunc(Math.random() * 2 ** 31));

const REPLICAS = 3;
const PRODUCERS = 12;
/** Events that must be accepted after each kill before the next one: the system works in between. */
const EVENTS_A_ROUND = 60;
const VICTIMS = ['gateway', 'consumer', 'redis', 'postgres'] as const;

/** Mulberry32: the same numbers for the same seed. */
function randomOf(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % below;
  };
}

describe(`chaos (CHAOS_SEED=${SEED})`, () => {
  let redis: TestRedis;
  let postgres: PrivatePostgres;
  let store: WarehouseStore;
  let pipeline: Pipeline;
  before(async () => {
    [redis, postgres] = await Promise.all([
      TestRedis.start(['--appendfsync', 'always']),
      startPrivatePostgres({ durable: true }),
    ]);
    store = await postgresStore(postgres);
    pipeline = await Pipeline.start({ queueUri: redis.uri, warehouseUri: store.uri, replicas: REPLICAS });
  });
  after(async () => {
    await pipeline.stop();
    await postgres.stop();
  });

  it(
    'every id that was answered 202 stands in the warehouse or in quarantine, once, and no other does',
    { timeout: (SECONDS + 120) * 1000 },
    async (t) => {
      const random = randomOf(SEED);
      const accepted = new Set<string>();
      let begun = 0;
      let loading = true;
      let failed = false;

      /** Sends one event after another; the same one again until it is accepted, as a producer does. */
      async function produce(): Promise<void> {
        while (loading) {
          begun += 1;
          const id = `chaos-${begun}`;
          const body = JSON.stringify({ id, type: 'chaos.event', data: 'x'.repeat(begun % 2_000) });
          while (!failed) {
            const answer: Found | undefined = await pipeline.post(body).catch(() => undefined);
            if (answer?.status === 202) break;
            if (answer !== undefined) assert.equal(answer.body['retryable'], true, answer.text);
            await delay(20);
          }
          accepted.add(id);
        }
      }

      /** Kills one process, waits for a moment, and starts it again. */
      async function kill(victim: (typeof VICTIMS)[number]): Promise<void> {
        const pauseMs = random(400);
        if (victim === 'gateway') {
          await pipeline.gateway.kill();
          await delay(pauseMs);
          await pipeline.startGateway();
        } else if (victim === 'consumer') {
          const [replica] = pipeline.replicas.splice(random(REPLICAS), 1);
          await replica?.program.kill();
          await delay(pauseMs);
          await pipeline.startConsumer();
        } else if (victim === 'redis') {
          await redis.signal('SIGKILL');
          await delay(pauseMs);
          await redis.start();
        } else {
          await postgres.kill();
          await delay(pauseMs);
          await postgres.start();
        }
      }

      const deadline = performance.now() + SECONDS * 1000;
      const producers = Array.from({ length: PRODUCERS }, produce);
      const load = Promise.all(producers);
      const kills: string[] = [];
      try {
        while (kills.length < ROUNDS && performance.now() < deadline) {
          // Each kind once, then any.
          const victim = VICTIMS[kills.length < VICTIMS.length ? kills.length : random(VICTIMS.length)] ?? 'consumer';
          const before = accepted.size;
          await kill(victim);
          kills.push(victim);
          await Promise.race([
            load,
            eventually(
              `events are accepted after the kill of ${victim}`,
              () => accepted.size >= before + EVENTS_A_ROUND,
              20_000,
            ),
          ]);
        }
      } catch (cause) {
        failed = true;
        throw cause;
      } finally {
        loading = false;
      }
      await load;

      const stored = async (): Promise<string[]> => {
        const quarantined = (await store.quarantine()).map(({ id }) => id ?? '');
        return [...(await store.events()).map(({ id }) => id), ...quarantined].sort();
      };
      await eventually('all has landed', async () => (await stored()).length >= accepted.size, 40_000);
      assert.deepEqual(await stored(), [...accepted].sort());
      for (const { program } of pipeline.replicas) assert.ok(program.running, program.output);
      t.diagnostic(`${kills.length} kills, ${accepted.size} events accepted and landed once`);
    },
  );
});

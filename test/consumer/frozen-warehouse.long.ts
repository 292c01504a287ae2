import assert from 'node:assert/strict';
import { it } from 'node:test';
import { startPrivatePostgres } from '../support/postgres.ts';
import { readiness } from '../support/pipeline.ts';
import { Program } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';

/** A call to the warehouse times out only after 15 s, so this deadline proves that readiness does not wait for one. */
const UNREADY_MS = 10_000;

it('readiness is false within seconds after PostgreSQL freezes, and true again afterwards', async (t) => {
  const postgres = await startPrivatePostgres({ durable: false });
  let frozen: readonly number[] = [];
  const signal = (name: NodeJS.Signals): void => frozen.forEach((pid) => process.kill(pid, name));
  t.after(() => {
    signal('SIGCONT');
    return postgres.stop();
  });
  const redis = await TestRedis.start();
  const program = new Program('ingest-consumer', {
    env: {
      INGEST_QUEUE_URI: redis.uri,
      INGEST_CONSUMER_ADDR: '127.0.0.1:0',
      INGEST_WAREHOUSE_URI: await postgres.freshDatabase(),
    },
  });
  const replica = { program, url: await program.listening() };
  await eventually('it is ready', async () => (await readiness(replica)).status === 200);
  frozen = postgres.processes();
  signal('SIGSTOP');
  const unready = await eventually(
    'it is not ready',
    async () => {
      const { status, body } = await readiness(replica);
      return status === 503 && body;
    },
    UNREADY_MS,
  );
  assert.deepEqual(unready, { status: 'unavailable', reason: 'the warehouse is unavailable: it does not answer' });
  signal('SIGCONT');
  frozen = [];
  await eventually('it is ready again', async () => (await readiness(replica)).status === 200);
});

// A warehouse that answers and cannot work as it is configured is not one that is away: it is told apart, without the
// password, tried again without flooding the log, and works once it has been put right.
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';
import { startPostgres, type PostgresServer } from '../support/postgres.ts';
import { Program } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';

let redis: TestRedis;
export let postgres: PostgresServer;
export let database: string;

before(async () => {
  [redis, postgres] = await Promise.all([TestRedis.start(), startPostgres()]);
  database = await postgres.freshDatabase();
});
after(() => postgres.stop());

export const uriWith = (change: (uri: URL) => void): string => {
  const uri = new URL(database);
  change(uri);
  return uri.href;
};

export const environment = (warehouse: string): Record<string, string> => ({
  INGEST_QUEUE_URI: redis.uri,
  INGEST_WAREHOUSE_URI: warehouse,
  INGEST_CONSUMER_ADDR: '127.0.0.1:0',
});

export const WRONG = /the warehouse cannot work as configured/;

export function itIsTold(what: string, warehouse: () => Promise<string>, reason: RegExp, checked = reason): void {
  it(`${what}: log, readiness and --check=connect say so, with the masked URI`, async (t) => {
    const env = environment(await warehouse());
    const program = new Program('ingest-consumer', { env });
    t.after(() => program.kill());
    const line = await program.line(WRONG);
    assert.match(line, reason);
    assert.match(line, /(postgres:\/\/|sqlite:)[^ ]*: /);
    const url = await program.listening();
    const ready = await fetch(`${url}/health/ready`);
    const { status, reason: told } = (await ready.json()) as Record<string, string>;
    assert.deepEqual([ready.status, status], [503, 'unavailable']);
    assert.match(told ?? '', WRONG);
    assert.match(told ?? '', reason);
    const check = new Program('ingest-consumer', { env, args: ['--check=connect'] });
    assert.equal(await check.ended, 5, check.output);
    assert.match(check.output, checked);
  });
}

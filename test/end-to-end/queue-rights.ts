// Programs on a Redis whose users have few rights.
import { before } from 'node:test';
import { Program, type ProgramName } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { temporaryFolder } from '../support/scope.ts';

export let redis: TestRedis;
before(async () => {
  redis = await TestRedis.start();
});

export const uriOf = (user: string): string => `redis://${user}:secret@127.0.0.1:${redis.port}`;

export function start(name: ProgramName, user: string): Program {
  return new Program(name, {
    env: {
      INGEST_QUEUE_URI: uriOf(user),
      INGEST_STATE_DIR: temporaryFolder(),
      INGEST_GATEWAY_ADDR: '127.0.0.1:0',
      INGEST_CONSUMER_ADDR: '127.0.0.1:0',
      INGEST_WAREHOUSE_URI: `sqlite:${temporaryFolder()}/warehouse.db`,
    },
  });
}

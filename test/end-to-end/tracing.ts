// Events with trace contexts, from a producer to the warehouse.
import { before } from 'node:test';
import { PATIENT, TestGateway, type Reply, type TestClient } from '../support/gateway.ts';
import { Pki, type ClientCertificate } from '../support/pki.ts';
import { Program } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { sqliteStore, type SqliteStore } from '../support/warehouse-store.ts';

export const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
export const PARENT = '00f067aa0ba902b7';
export const SAMPLED = `00-${TRACE}-${PARENT}-01`;
export const UNSAMPLED = `00-${'a'.repeat(32)}-${PARENT}-00`;

export let pki: Pki;
export let producer: ClientCertificate;
before(async () => {
  pki = await Pki.create();
  producer = await pki.producer('shop');
});

export interface Way {
  readonly redis: TestRedis;
  readonly gateway: TestGateway;
  readonly consumer: Program;
  readonly store: SqliteStore;
  readonly client: TestClient;
}

export async function start(env: Readonly<Record<string, string>> = {}): Promise<Way> {
  const redis = await TestRedis.start();
  const store = sqliteStore();
  const consumer = new Program('ingest-consumer', {
    env: {
      INGEST_QUEUE_URI: redis.uri,
      INGEST_WAREHOUSE_URI: store.uri,
      INGEST_CONSUMER_ADDR: '127.0.0.1:0',
      ...env,
    },
  });
  await consumer.listening();
  // Before that a look-up is 503, which is a span too.
  await consumer.line(/the warehouse is ready/);
  const gateway = await TestGateway.start(redis, pki, { ...PATIENT, INGEST_WAREHOUSE_URI: store.uri, ...env });
  return { redis, gateway, consumer, store, client: gateway.client(producer) };
}

export const landed = (client: TestClient, id: string): Promise<Reply> =>
  eventually(`${id} is in the warehouse`, async () => {
    const reply = await client.find(id);
    return reply.json?.['status'] !== 'accepted' && reply.status === 200 && reply;
  });

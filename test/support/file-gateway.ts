// A gateway with its queue and one producer, for all tests of a file.
import { TestGateway, type TestClient } from './gateway.ts';
import { Pki, type ClientCertificate } from './pki.ts';
import { TestRedis } from './redis.ts';
import { atEnd } from './scope.ts';
import { assertAlive } from './verdicts.ts';

export interface QueueAndProducer {
  readonly redis: TestRedis;
  readonly pki: Pki;
  readonly producer: ClientCertificate;
}

export interface FileGateway extends QueueAndProducer {
  readonly gateway: TestGateway;
  /** A client with the producer's certificate. */
  readonly client: TestClient;
}

export async function queueAndProducer(name = 'one'): Promise<QueueAndProducer> {
  const [redis, pki] = await Promise.all([TestRedis.start(), Pki.create()]);
  return { redis, pki, producer: await pki.producer(name) };
}

/** Starts the gateway, which must still be alive after the tests of the file. */
export async function fileGateway(env: Readonly<Record<string, string>> = {}): Promise<FileGateway> {
  const parts = await queueAndProducer();
  const gateway = await TestGateway.start(parts.redis, parts.pki, env);
  atEnd(() => assertAlive(gateway));
  return { ...parts, gateway, client: gateway.client(parts.producer) };
}

// A client that asks and never reads does not stay: what waits for it is memory that others need.
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { event, PATIENT, TestGateway } from '../support/gateway.ts';
import { Pki, type ClientCertificate } from '../support/pki.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { assertAlive } from '../support/verdicts.ts';
import { requestText } from '../support/wire.ts';

let redis: TestRedis;
let gateway: TestGateway;
let producer: ClientCertificate;

before(async () => {
  let pki: Pki;
  [redis, pki] = await Promise.all([TestRedis.start(), Pki.create()]);
  producer = await pki.producer('one');
  gateway = await TestGateway.start(redis, pki, { ...PATIENT, INGEST_IDLE_TIMEOUT_MS: '1000' });
});

describe('a client that never reads its answers', () => {
  it('loses its connection once it has been idle for the limit, and one that reads late gets all of them', async () => {
    // Larger than what the sockets between them hold.
    const body = event('large', { fill: 'x'.repeat(250_000) });
    assert.equal((await gateway.client(producer).post(body)).status, 202);
    const ask = requestText('GET /events/large').repeat(40);
    const lookUps = (): Promise<number> => gateway.metric('ingest_http_requests_total', { route: '/events/{id}' });

    // The connection of the scraper stands before: what waits unread is cut off after a second.
    assert.equal(await lookUps(), 0);
    const late = await gateway.socket(producer);
    late.socket.pause();
    late.write(ask);
    await eventually('its requests have arrived', async () => (await lookUps()) > 0);
    late.socket.resume();
    await eventually('it has its answers', () => late.received.split('HTTP/1.1 200 OK').length === 41);
    late.socket.destroy();

    const deaf = await gateway.socket(producer);
    deaf.socket.pause();
    deaf.write(ask);
    await eventually('its requests have arrived', async () => (await lookUps()) > 40);
    // The scraper's is the one that is left.
    await eventually('its connection is gone', async () => (await gateway.metric('ingest_connections')) === 1);
    await assertAlive(gateway);
  });
});

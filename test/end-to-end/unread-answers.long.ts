import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { queueAndProducer } from '../support/file-gateway.ts';
import { event, TestGateway } from '../support/gateway.ts';
import { eventually } from '../support/scope.ts';
import { repliesIn, requestText } from '../support/wire.ts';

const { redis, pki, producer } = await queueAndProducer();

/** A producer's budget is 16 MiB, or four answers. One more answer may exceed the limit, and one may be in transit. */
const STAY_MAX = 6;

const residentMb = ({ child }: TestGateway): number =>
  Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1]) / 1024;

describe('clients that do not read their answers, on many connections', () => {
  it('are cut until what waits for the others fits into the budget of a producer, and another producer is answered', async (t) => {
    const one = await TestGateway.start(redis, pki, {
      INGEST_BODY_BYTES_MAX: String(8 << 20),
      INGEST_REQUEST_TIMEOUT_MS: '60000',
    });
    assert.equal((await one.client(producer).post(event('four', { fill: 'x'.repeat(4 << 20) }))).status, 202);
    const other = one.client(await pki.producer('other'));
    assert.equal((await other.post(event('small'))).status, 202);
    const before = residentMb(one);
    let most = 0;
    const deaf = await Promise.all(Array.from({ length: 60 }, () => one.socket(producer)));
    for (const { socket } of deaf) socket.pause();
    // The first answer fills the sockets, so the others wait in the gateway.
    for (const connection of deaf) connection.write(requestText('GET /events/four').repeat(4));
    const closed = (): number => deaf.filter((one) => one.closed).length;
    await eventually(
      'those are cut that have been behind for longest',
      async () => {
        most = Math.max(most, residentMb(one));
        return (await one.metric('ingest_connections')) <= 3 + STAY_MAX;
      },
      60_000,
    );
    assert.equal((await other.find('small')).status, 200);
    t.diagnostic(`${before.toFixed()} → ${most.toFixed()} MB`);
    for (const { socket } of deaf) socket.resume();
    await eventually('the clients know it', () => closed() >= deaf.length - STAY_MAX);
    // A lookup may time out with 503 on a busy machine, so the test does not check the statuses.
    await eventually('the others get all of their answers', () =>
      deaf.every((connection) => connection.closed || repliesIn(connection.received).length === 4),
    );
    assert.ok(closed() < deaf.length);
  });
});

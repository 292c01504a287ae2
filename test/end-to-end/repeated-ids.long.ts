// One producer stores a long event and pipelines small events of the same id; another one's events are accepted
// meanwhile. What the server reads for that is bounded in test/redis/id-index.test.ts.
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { event, TestGateway, type RawConnection } from '../support/gateway.ts';
import { Pki, type ClientCertificate } from '../support/pki.ts';
import { TestRedis } from '../support/redis.ts';
import { postText } from '../support/wire.ts';

const OTHERS = 25;
const PIPELINED = 250;
const ATTACK = postText(event('long', { n: 1 })).repeat(PIPELINED);

let pki: Pki;
let attacker: ClientCertificate;
let other: ClientCertificate;
before(async () => {
  pki = await Pki.create();
  [attacker, other] = [await pki.producer('attacker'), await pki.producer('other')];
});

/** Sends repeats, and more once half of them were answered. Gives the number of answers so far. */
function repeat(connection: RawConnection): () => number {
  let [answered, sent] = [0, 0];
  const send = (): void => {
    sent += PIPELINED;
    connection.write(ATTACK);
  };
  connection.socket.on('data', (chunk: Buffer) => {
    answered += chunk.toString('latin1').split('HTTP/1.1 ').length - 1;
    if (answered > sent - PIPELINED / 2) send();
  });
  send();
  return () => answered;
}

describe('small events with the id of a long one', () => {
  for (const connections of [1, 16])
    it(`on ${connections} connections keep no other producer's event out`, async (t) => {
      const redis = await TestRedis.start();
      const gateway = await TestGateway.start(redis, pki);
      const stored = await gateway.client(attacker).post(event('long', { text: 'x'.repeat(255_000) }));
      assert.equal(stored.status, 202);
      const bystander = gateway.client(other);
      assert.equal((await bystander.post(event('first'))).status, 202);
      await redis.command('CONFIG', 'RESETSTAT');

      const sockets = await Promise.all(Array.from({ length: connections }, () => gateway.socket(attacker)));
      const attacks = sockets.map(repeat);
      const statuses: number[] = [];
      let slowestMs = 0;
      for (let at = 0; at < OTHERS; at += 1) {
        const startMs = performance.now();
        statuses.push((await bystander.post(event(`other-${at}`))).status);
        slowestMs = Math.max(slowestMs, performance.now() - startMs);
      }
      const repeated = attacks.reduce((sum, answered) => sum + answered(), 0);
      for (const { socket } of sockets) socket.destroy();
      const accepted = statuses.filter((status) => status === 202).length;
      t.diagnostic(
        `${accepted} of ${OTHERS} accepted, slowest ${Math.round(slowestMs)} ms, beside ${repeated} repeats`,
      );
      assert.ok(repeated >= PIPELINED, `${repeated}`);
      assert.equal(accepted, OTHERS, statuses.join());
      assert.equal((await redis.entries()).length, OTHERS + 2);
      const stats = String(await redis.command('INFO', 'commandstats'));
      // Reading the whole stream above is one, a look of the trimmer two every few seconds.
      const reads = Number(/^cmdstat_xrange:calls=(\d+)/m.exec(stats)?.[1] ?? 0);
      assert.ok(reads < 100, `${reads} reads`);
    });
});

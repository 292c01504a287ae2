// The limits are small so that few bytes reach them. Bodies of 16 KiB with a limit of 4 MiB behave like bodies of 256
// KiB with the default limit of 64 MiB.
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { event, TestGateway, type RawConnection, type TestClient } from '../support/gateway.ts';
import { Pki, type ClientCertificate } from '../support/pki.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { assertAlive } from '../support/verdicts.ts';
import { postText } from '../support/wire.ts';

const BODY_BYTES = 16_384;
const GREEDY_CONNECTIONS = 400;
const OTHERS = 10;
const EVENTS_EACH = 100;
const GAP_MS = 20;

let redis: TestRedis;
let gateway: TestGateway;
let greedy: ClientCertificate;
let others: readonly TestClient[];

before(async () => {
  let pki: Pki;
  [redis, pki] = await Promise.all([TestRedis.start(), Pki.create()]);
  gateway = await TestGateway.start(redis, pki, {
    INGEST_IN_FLIGHT_BYTES_MAX: String(4 << 20),
    INGEST_REQUEST_TIMEOUT_MS: '120000',
    INGEST_DRAIN_TIMEOUT_MS: '120000',
  });
  greedy = await pki.producer('greedy');
  others = await Promise.all(
    Array.from({ length: OTHERS }, async (_, at) => gateway.client(await pki.producer(`other-${at}`))),
  );
  atEnd(() => assertAlive(gateway));
});

/** Opens 40 connections at a time, because the backlog of a listener is limited. */
async function greedyConnections(): Promise<RawConnection[]> {
  const connections: RawConnection[] = [];
  while (connections.length < GREEDY_CONNECTIONS) {
    connections.push(...(await Promise.all(Array.from({ length: 40 }, () => gateway.socket(greedy)))));
  }
  return connections;
}

async function statusesOfOthers(name: string): Promise<Map<number, number>> {
  const statuses = new Map<number, number>();
  const replies: Promise<void>[] = [];
  const start = performance.now();
  for (let at = 0; at < EVENTS_EACH; at += 1) {
    await eventually('the next event is due', () => performance.now() >= start + at * GAP_MS);
    for (const [which, client] of others.entries()) {
      const reply = client.post(event(`${name}-${which}-${at}`));
      replies.push(reply.then(({ status }) => void statuses.set(status, (statuses.get(status) ?? 0) + 1)));
    }
  }
  await Promise.all(replies);
  return statuses;
}

async function assertOthersAccepted(name: string): Promise<void> {
  const statuses = await statusesOfOthers(name);
  const accepted = statuses.get(202) ?? 0;
  assert.ok(accepted >= 0.999 * OTHERS * EVENTS_EACH, `of ${OTHERS * EVENTS_EACH}: ${JSON.stringify([...statuses])}`);
}

describe('ten producers at 50 events a second each are accepted while another one', () => {
  it('announces bodies on 400 connections and sends nothing of them', async () => {
    const connections = await greedyConnections();
    for (const connection of connections) connection.write(postText('', [`Content-Length: ${BODY_BYTES}`]));
    await eventually('some were refused', () => connections.some(({ received }) => received.includes('503')));
    await assertOthersAccepted('announced');
    for (const { socket } of connections) socket.destroy();
  });

  it('saturates 400 connections with large bodies', async () => {
    const connections = await greedyConnections();
    let sent = 0;
    let refused = 0;
    for (const { socket } of connections) {
      const post = (): void => {
        socket.write(postText(event(`greedy-${(sent += 1)}`, { data: 'x'.repeat(BODY_BYTES - 100) })));
      };
      socket.on('data', (answer: Buffer) => {
        if (answer.includes('HTTP/1.1 503')) refused += 1;
        post();
      });
      post();
    }
    await eventually('some were refused', () => refused > 0);
    await assertOthersAccepted('saturated');
    for (const { socket } of connections) socket.destroy();
  });
});

// test/http/eviction.test.ts has the rules by which connections are closed; these cases have real load.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { queueAndProducer } from '../support/file-gateway.ts';
import { event, TestGateway, type RawConnection } from '../support/gateway.ts';
import { strangers } from '../support/crowd.ts';
import { eventually } from '../support/scope.ts';
import { assertAlive } from '../support/verdicts.ts';
import { askRaw, postText, requestText } from '../support/wire.ts';

const { redis, pki, producer } = await queueAndProducer('producer');
const attacker = await pki.producer('attacker');

for (const first of ['GET', 'HEAD'] as const)
  it(
    `a client that does not read its answers is disconnected as idle (${first === 'GET' ? 'fast path' : 'node:http'})`,
    { tags: first === 'GET' ? [] : ['long'] },
    async () => {
      const gateway = await TestGateway.start(redis, pki, { INGEST_IDLE_TIMEOUT_MS: '500' });
      const client = gateway.client(attacker);
      assert.equal((await client.post(event('unread', { pad: 'x'.repeat(250_000) }))).status, 202);
      client.close();
      const connection = await gateway.socket(attacker);
      connection.socket.pause();
      connection.write(requestText(`${first} /health/live`) + requestText('GET /events/unread').repeat(200));
      await eventually('it is cut off', async () => (await gateway.metric('ingest_connections')) === 1, 60_000);
    },
  );

describe('strangers that hold every connection and reconnect when they are cut off', { tags: ['long'] }, () => {
  for (const perAddress of ['0', '20'])
    it(`do not keep a producer out, nor cut one that is known (${perAddress} for an address)`, async (t) => {
      const gateway = await TestGateway.start(redis, pki, {
        INGEST_CONNECTIONS_MAX: '60',
        INGEST_CONNECTIONS_PER_ADDRESS_MAX: perAddress,
      });
      const known = await gateway.socket(producer);
      const cut = async (): Promise<number> => {
        const { body } = await askRaw(known, requestText('GET /metrics'));
        return Number(/reason="limit"\} (\d+)/.exec(body)?.[1] ?? 0);
      };
      for (const kind of ['silent', 'stalled', 'unauthenticated'] as const) {
        const before = await cut();
        // There are more strangers than the gateway has room for, so one of them is always waiting.
        const holding = await strangers(gateway.port, 80, kind);
        await eventually(`${kind} ones were cut`, async () => (await cut()) > before + 20);
        for (let at = 0; at < 30; at += 1) {
          const client = gateway.client(producer);
          assert.equal((await client.post(event(`among-${kind}-${perAddress}-${at}`))).status, 202, `${kind} ${at}`);
          client.close();
        }
        assert.equal((await askRaw(known, postText(event(`known-${kind}-${perAddress}`)))).status, 202);
        t.diagnostic(`${kind}: ${(await cut()) - before} cut`);
        await holding.end();
      }
    });
});

describe('ten producers at 50 events a second each are accepted while another one', { tags: ['long'] }, () => {
  const BODY_BYTES = 16_384;
  const OTHERS = 10;
  const EVENTS_EACH = 100;
  const GAP_MS = 20;

  /** The limit is small so that few bytes reach it. */
  async function assertOthersAccepted(name: string, occupy: (connection: RawConnection) => void): Promise<void> {
    const gateway = await TestGateway.start(redis, pki, {
      INGEST_IN_FLIGHT_BYTES_MAX: String(4 << 20),
      INGEST_REQUEST_TIMEOUT_MS: '120000',
      INGEST_DRAIN_TIMEOUT_MS: '120000',
    });
    const certificates = await Promise.all(Array.from({ length: OTHERS }, (_, at) => pki.producer(`other-${at}`)));
    const others = certificates.map((certificate) => gateway.client(certificate));
    const connections: RawConnection[] = [];
    // The backlog of a listener is limited.
    while (connections.length < 400)
      connections.push(...(await Promise.all(Array.from({ length: 40 }, () => gateway.socket(attacker)))));
    for (const connection of connections) occupy(connection);
    // The gateway refuses the event, or closes the connection because its producer holds too much.
    await eventually(
      'some were refused',
      async () =>
        connections.some(({ closed }) => closed) || (await gateway.metric('ingest_refused_overload_total')) > 0,
    );
    const statuses: Promise<number>[] = [];
    const start = performance.now();
    for (let at = 0; at < EVENTS_EACH; at += 1) {
      await eventually('the next event is due', () => performance.now() >= start + at * GAP_MS);
      for (const [which, client] of others.entries())
        statuses.push(client.post(event(`${name}-${which}-${at}`)).then(({ status }) => status));
    }
    const accepted = (await Promise.all(statuses)).filter((status) => status === 202).length;
    assert.ok(accepted >= 0.999 * OTHERS * EVENTS_EACH, `${accepted} of ${OTHERS * EVENTS_EACH}`);
    for (const { socket } of connections) socket.destroy();
    await assertAlive(gateway);
  }

  it('announces bodies on 400 connections and sends nothing of them', () =>
    assertOthersAccepted('announced', (connection) =>
      connection.write(postText('', [`Content-Length: ${BODY_BYTES}`])),
    ));

  it('saturates 400 connections with large bodies', () => {
    let sent = 0;
    return assertOthersAccepted('saturated', ({ socket }) => {
      const post = (): void =>
        void socket.write(postText(event(`greedy-${(sent += 1)}`, { data: 'x'.repeat(BODY_BYTES - 100) })));
      socket.on('data', post);
      post();
    });
  });
});

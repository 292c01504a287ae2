import assert from 'node:assert/strict';
import { it } from 'node:test';
import { connect } from 'node:tls';
import { gzipSync } from 'node:zlib';
import type { Submission } from '../../lib/ingest/queue.ts';
import { event, RawConnection, TestClient, tlsOptions } from '../support/client.ts';
import { gatewayInProcess } from '../support/gateway-in-process.ts';
import { MemoryQueue, MemoryQueueStore } from '../support/memory-queue.ts';
import { Pki, type ClientCertificate } from '../support/pki.ts';
import { eventually } from '../support/scope.ts';
import { askRaw, postText, repliesIn, requestText } from '../support/wire.ts';

const GZIP = 'Content-Encoding: gzip';
const JSON_FIELD = 'Content-Type: application/json';

/** A queue that does not answer submissions while `holds` is true. */
class HeldQueue extends MemoryQueue {
  readonly store: MemoryQueueStore;
  readonly held: Submission[] = [];
  readonly submitted: string[] = [];
  holds = false;

  constructor(store = new MemoryQueueStore()) {
    super(store);
    this.store = store;
  }

  override submit(submission: Submission): void {
    this.submitted.push(submission.id);
    if (this.holds) this.held.push(submission);
    else super.submit(submission);
  }

  release(): void {
    this.holds = false;
    for (const submission of this.held.splice(0)) super.submit(submission);
  }
}

const pki = await Pki.create();
const [shop, bank] = await Promise.all([pki.producer('shop'), pki.producer('bank')]);

async function started(environment: Readonly<Record<string, string>>) {
  const queue = new HeldQueue();
  const { port, lines, metrics } = await gatewayInProcess(pki, environment, { queue });
  const ca = pki.authority.certificate;
  return {
    queue,
    lines,
    client: (producer: ClientCertificate) => new TestClient(port, ca, producer, {}),
    raw: (producer: ClientCertificate) =>
      new RawConnection(connect({ port, host: '127.0.0.1', ...tlsOptions(ca, producer, {}) })),
    inFlight: async (count: number): Promise<void> => {
      await eventually(`${count} in flight`, async () => {
        const text = await metrics.registry.getSingleMetricAsString('ingest_events_in_flight');
        return text.trimEnd().endsWith(`ingest_events_in_flight ${count}`);
      });
    },
  };
}

const codedHead = (body: Buffer): string =>
  requestText('POST /events', [JSON_FIELD, GZIP, `Content-Length: ${body.length}`]);

it('the admission of an event is released exactly once, however the exchange ends', async () => {
  const { queue, client, raw, inFlight } = await started({
    INGEST_IN_FLIGHT_MAX: '1',
    INGEST_BODY_BYTES_MAX: '1000',
    INGEST_REQUEST_TIMEOUT_MS: '1000',
  });
  const [one, other] = [client(shop), client(bank)];
  const half = postText(event('half')).slice(0, -1);
  const chunked = requestText('POST /events', [JSON_FIELD, 'Transfer-Encoding: chunked']);

  const leaving = (end: (connection: RawConnection) => unknown) => async (): Promise<void> => {
    const connection = raw(shop);
    connection.write(half);
    await inFlight(1);
    end(connection);
    await connection.untilClosed();
  };
  const answered =
    (status: number, ...parts: readonly (string | Buffer)[]) =>
    async (): Promise<void> => {
      const connection = raw(shop);
      for (const part of parts.slice(0, -1)) connection.write(part);
      connection.write(parts.at(-1) ?? '');
      await eventually(`it is answered ${status}`, () => repliesIn(connection.received).length > 0);
      assert.equal(repliesIn(connection.received)[0]?.status, status);
      connection.socket.destroy();
    };
  const broken = gzipSync(event('broken')).subarray(0, -3);
  const bomb = gzipSync('x'.repeat(5_000));
  const endings: Readonly<Record<string, () => Promise<void>>> = {
    'the client resets the connection in the body': leaving(({ socket }) => void socket.destroy()),
    'the client ends its side in the body': leaving(({ socket }) => socket.end()),
    'the body does not arrive in time': answered(408, half),
    'the body breaks its framing': answered(400, `${chunked}zz\r\n`),
    'the body is too large without an announced length': answered(
      413,
      `${chunked}${(2_000).toString(16)}\r\n${'x'.repeat(2_000)}\r\n0\r\n\r\n`,
    ),
    'the body is not an event': answered(400, postText('{}')),
    'the body cannot be decoded': answered(400, codedHead(broken), broken),
    'the decoded body is too large': answered(413, codedHead(bomb), bomb),
    'the client leaves before the queue answers': async () => {
      queue.holds = true;
      const connection = raw(shop);
      connection.write(postText(event('left')));
      await eventually('it is submitted', () => queue.held.length === 1);
      connection.socket.destroy();
      await connection.untilClosed();
      queue.release();
    },
  };
  for (const [ending, end] of Object.entries(endings)) {
    await end();
    await inFlight(0);
    // If the earlier event was released exactly once, the gateway has room for exactly one event.
    queue.holds = true;
    const admitted = one.post(event(`after ${ending}`));
    await eventually('it is submitted', () => queue.held.length === 1);
    assert.equal((await other.post(event('refused'))).json?.['code'], 'QUEUE_OVERLOADED', ending);
    queue.release();
    assert.equal((await admitted).status, 202, ending);
    await inFlight(0);
  }
  const { body: metrics } = await one.ask({ path: '/metrics' });
  for (const sample of ['aborted_total', 'http_requests_total{method="POST",route="/events",status="499"}'])
    assert.ok(metrics.includes(`\ningest_${sample} 2\n`), sample);
});

it('a connection without a request gives its place to another producer, and one in progress gets its answer', async () => {
  const { queue, raw } = await started({ INGEST_CONNECTIONS_MAX: '3' });
  const [busy, idle] = [raw(shop), raw(shop)];
  for (const [at, connection] of [busy, idle].entries())
    assert.equal((await askRaw(connection, postText(event(`first-${at}`)))).status, 202);
  queue.holds = true;
  busy.write(postText(event('in-progress')));
  await eventually('it is submitted', () => queue.held.length === 1);
  for (const id of ['a', 'b']) {
    const connection = raw(bank);
    connection.write(postText(event(id)));
    await eventually(`${id} is submitted`, () => queue.submitted.includes(id));
  }
  await idle.untilClosed();
  queue.release();
  await eventually('it is answered', () => repliesIn(busy.received).length === 2);
  assert.equal(repliesIn(busy.received)[1]?.status, 202);
});

// Sends mutated requests to a running gateway. The gateway must survive, every answer must be documented, and
// node:http must see the same beginning and end of every request. `make ingest-test` sends the same 750 requests each
// time; `make fuzz` sends a million. FUZZ_REQUESTS limits their number, FUZZ_SEED repeats a run, and FUZZ_FROM
// continues at a case.
import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { it } from 'node:test';
import { connect, createSecureContext } from 'node:tls';
import { TestGateway } from '../support/gateway.ts';
import { Pki } from '../support/pki.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { assertAlive } from '../support/verdicts.ts';
import { fuzzCase } from './cases.ts';
import { faultIn } from './compare.ts';
import { NodeReader } from './node-reading.ts';

const ASKED = process.env['FUZZ_REQUESTS'];
const REQUESTS = Number(ASKED ?? 750);
const SEED = Number(process.env['FUZZ_SEED'] ?? (ASKED === undefined ? 1 : Math.trunc(Math.random() * 2 ** 31)));
const FROM = Number(process.env['FUZZ_FROM'] ?? 0);
const AT_ONCE = 32;
const REPORT_EVERY = 20_000;
const END_DEADLINE_MS = 60_000;

it(`${REQUESTS} mutated requests (FUZZ_SEED=${SEED})`, { timeout: 120_000 + REQUESTS * 20 }, async () => {
  const [redis, pki] = await Promise.all([TestRedis.start(), Pki.create()]);
  const gateway = await TestGateway.start(redis, pki, { INGEST_IDLE_TIMEOUT_MS: '2000' });
  const producer = await pki.producer('fuzz');
  const secureContext = createSecureContext({ ca: pki.authority.certificate, cert: producer.cert, key: producer.key });
  let session: Buffer | undefined;

  const answersTo = (bytes: Buffer, cuts: readonly number[]): Promise<string> =>
    new Promise((resolve, reject) => {
      let received = '';
      const socket = connect({ host: '127.0.0.1', port: gateway.port, secureContext, ...(session && { session }) });
      socket.on('session', (granted: Buffer) => (session = granted));
      socket.on('data', (chunk: Buffer) => (received += chunk.toString('latin1')));
      socket.on('error', () => undefined);
      const late = setTimeout(() => {
        reject(new Error(`the connection stays open after ${JSON.stringify(received)}`));
        socket.destroy();
      }, END_DEADLINE_MS);
      socket.on('close', () => {
        clearTimeout(late);
        resolve(received);
      });
      socket.setNoDelay(true);
      void sendPieces(socket, bytes, cuts);
    });

  const faults: string[] = [];
  let number = FROM;
  let requests = 0;
  let reported = 0;
  const startMs = performance.now();
  const work = async (): Promise<void> => {
    const reader = new NodeReader();
    while (requests < REQUESTS && faults.length < 20) {
      const mine = number;
      number += 1;
      const { bytes, cuts, requests: count } = fuzzCase(SEED, mine);
      requests += count;
      const reading = await reader.read(bytes);
      const fault = await answersTo(bytes, cuts).then(
        (received) => andReceived(faultIn(received, reading), received),
        (cause: unknown) => String(cause),
      );
      if (fault !== undefined) faults.push(`case ${mine}: ${fault}\n${JSON.stringify(bytes.toString('latin1'))}`);
      if (requests < reported + REPORT_EVERY) continue;
      reported = requests;
      // A diagnostic would be printed only after the test, so progress is written to the output directly.
      const perSecond = Math.round((requests / (performance.now() - startMs)) * 1_000);
      process.stdout.write(
        `${requests} requests, ${perSecond} a second; to go on: FUZZ_SEED=${SEED} FUZZ_FROM=${number - AT_ONCE}\n`,
      );
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  assert.deepEqual(faults, []);
  await assertAlive(gateway);
  assert.ok((await gateway.metric('ingest_enqueue_duration_seconds_count')) > 0);
  await eventually('the queue is measured', async () => (await gateway.metric('ingest_queue_events')) > 0);
  gateway.signal('SIGHUP');
  await gateway.line(/SIGHUP: loading/);
});

async function sendPieces(socket: Socket, bytes: Buffer, cuts: readonly number[]): Promise<void> {
  let from = 0;
  for (const to of cuts) {
    await new Promise((resolve) => socket.write(bytes.subarray(from, to), resolve));
    from = to;
  }
  socket.end(bytes.subarray(from));
}

const andReceived = (fault: string | undefined, received: string): string | undefined =>
  fault === undefined ? undefined : `${fault}; received ${JSON.stringify(received)}`;

// `make soak` measures the memory of a gateway and a consumer under a steady load with new connections, refused
// requests and repeated events. The memory in the last third must be at most 1.10 times that in the middle third, and
// every accepted event must land. SOAK_SECONDS (default: 900) and SOAK_RATE (default: 2,500 events per second) set
// the load. The speed is printed but not checked.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { event, PATIENT, TestClient, TestGateway } from '../support/gateway.ts';
import { Load } from '../support/load.ts';
import { Pki } from '../support/pki.ts';
import { Program } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { assertAlive } from '../support/verdicts.ts';
import { sqliteStore } from '../support/warehouse-store.ts';

const SECONDS = Number(process.env['SOAK_SECONDS'] ?? 900);
const RATE_PER_S = Number(process.env['SOAK_RATE'] ?? 2_500);
const CONNECTIONS = { maxSockets: 20, scheduling: 'fifo' } as const;
const SENDERS = { new: 180, repeated: 10, refused: 10 };
const NEW_CONNECTIONS_PER_S = 10;
const GROWTH_MAX = 1.1;

it(
  `memory is level over ${SECONDS} s at ${RATE_PER_S} events a second`,
  { timeout: (SECONDS + 300) * 1000 },
  async (t) => {
    const [redis, pki] = await Promise.all([TestRedis.start(), Pki.create()]);
    const store = sqliteStore();
    const gateway = await TestGateway.start(redis, pki, PATIENT);
    const consumer = new Program('ingest-consumer', {
      env: { INGEST_QUEUE_URI: redis.uri, INGEST_WAREHOUSE_URI: store.uri, INGEST_CONSUMER_ADDR: '127.0.0.1:0' },
    });
    await consumer.listening();
    const certificate = await pki.producer('steady');
    const client = new TestClient(gateway.port, pki.authority.certificate, certificate, {}, CONNECTIONS);
    const everyMs = (1_000 * (SENDERS.new + SENDERS.repeated + SENDERS.refused)) / RATE_PER_S;
    const begin = (kind: keyof typeof SENDERS, body: (text: string) => string): Load =>
      new Load({ post: (text) => client.post(body(text)) }, kind, SENDERS[kind], everyMs, true);
    const fresh = begin('new', (text) => text.replace('}', `,"fill":"${'x'.repeat(200)}"}`));
    const loads = [fresh, begin('repeated', () => event('new-1')), begin('refused', () => '{"id":"no event"}')];

    let [visitors, isOver] = [0, false];
    const visiting = (async () => {
      for (; !isOver; visitors += 1) {
        const visitor = gateway.client(certificate);
        await visitor.post(event('new-1'));
        visitor.close();
        await delay(1000 / NEW_CONNECTIONS_PER_S);
      }
    })();
    const memory = { gateway: [] as number[], consumer: [] as number[] };
    const startMs = performance.now();
    for (let second = 1; second <= SECONDS; second += 1) {
      await delay(Math.max(0, startMs + second * 1_000 - performance.now()));
      memory.gateway.push(residentBytes(gateway.child.pid));
      memory.consumer.push(residentBytes(consumer.child.pid));
    }
    isOver = true;
    await Promise.all([visiting, ...loads.map((load) => load.stop())]);

    const [sent, ...others] = loads.map((load) => load.sent);
    t.diagnostic(`${sent} new events, ${others.join(' + ')} others, ${visitors} visitors`);
    for (const [name, samples] of Object.entries(memory)) {
      const [first, middle, last] = [0, 1, 2].map((third) => mean(samples, third)) as [number, number, number];
      t.diagnostic(`${name}: ${[first, middle, last].map((bytes) => (bytes / 2 ** 20).toFixed(1)).join(' → ')} MiB`);
      assert.ok(last <= GROWTH_MAX * middle, `${name} grows: ${last} bytes after ${middle}`);
    }
    const wanted = [/^(202|202,503)$/, /^(202|202,503)$/, /^400$/];
    for (const [at, load] of loads.entries()) assert.match(load.statuses.join(), wanted[at] ?? /^$/);
    const hasLanded = async (): Promise<number | false> => {
      const count = await store.count();
      return count >= fresh.accepted.size && count;
    };
    const rows = await eventually('every accepted event has landed', hasLanded, 120_000);
    assert.ok(rows <= fresh.sent, `${rows} rows for ${fresh.sent} events`);
    await assertAlive(gateway);
  },
);

function residentBytes(pid: number | undefined): number {
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1024;
}

function mean(samples: readonly number[], third: number): number {
  const part = samples.slice(Math.floor((samples.length * third) / 3), Math.floor((samples.length * (third + 1)) / 3));
  return part.reduce((sum, one) => sum + one, 0) / part.length;
}

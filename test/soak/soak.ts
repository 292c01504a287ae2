// `make soak` measures the memory of a gateway and a consumer under a steady load with new connections, refused
// requests and repeated events. The memory in the last third must be at most 1.10 times that in the middle third, and
// every accepted event must land. SOAK_SECONDS (default: 900) and SOAK_RATE (default: 2,500 events per second) set
// the load. The speed is printed but not checked.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { TLSSocket } from 'node:tls';
import { event, PATIENT, TestGateway } from '../support/gateway.ts';
import { Pki } from '../support/pki.ts';
import { Program } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { assertAlive } from '../support/verdicts.ts';
import { sqliteStore } from '../support/warehouse-store.ts';
import { postText } from '../support/wire.ts';

const SECONDS = Number(process.env['SOAK_SECONDS'] ?? 900);
const RATE_PER_S = Number(process.env['SOAK_RATE'] ?? 2_500);
const CONNECTIONS = 20;
const NEW_CONNECTIONS_PER_S = 10;
const TICK_MS = 10;
const GROWTH_MAX = 1.1;
/** A connection with this many unanswered requests gets no new ones. */
const OWED_MAX = 32;

type Kind = 'new' | 'repeated' | 'refused';

class Tally {
  sent = 0;
  accepted = 0;
  /** New events not answered with 202, which may nevertheless have been accepted. */
  unknown = 0;
  readonly answers = new Map<string, number>();

  next(): { readonly kind: Kind; readonly text: string } {
    const turn = (this.sent += 1);
    if (turn % 20 === 0) return { kind: 'refused', text: postText('{"id":"no event"}') };
    if (turn % 20 === 10) return { kind: 'repeated', text: postText(event('soak-1', { fill: 'x'.repeat(200) })) };
    return { kind: 'new', text: postText(event(`soak-${turn}`, { fill: 'x'.repeat(200) })) };
  }

  answered(kind: Kind, status: string): void {
    const name = `${kind} ${status}`;
    this.answers.set(name, (this.answers.get(name) ?? 0) + 1);
    if (kind === 'new' && status === '202') this.accepted += 1;
    if (kind === 'new' && status !== '202') this.unknown += 1;
  }
}

class Producer {
  readonly socket: TLSSocket;
  readonly #owed: Kind[] = [];
  #tail = '';

  constructor(socket: TLSSocket, tally: Tally) {
    this.socket = socket;
    socket.removeAllListeners('data');
    socket.on('data', (chunk: Buffer) => {
      const text = this.#tail + chunk.toString('latin1');
      let end = 0;
      for (const { 1: status = '', index } of text.matchAll(/HTTP\/1\.1 (\d{3}) /g)) {
        tally.answered(this.#owed.shift() ?? assert.fail('an answer that nothing was asked for'), status);
        end = index + 13;
      }
      this.#tail = text.slice(Math.max(end, text.length - 12));
    });
    socket.on('close', () => {
      for (const kind of this.#owed.splice(0)) tally.answered(kind, 'none');
    });
  }

  get owed(): number {
    return this.#owed.length;
  }

  send({ kind, text }: { readonly kind: Kind; readonly text: string }): void {
    this.#owed.push(kind);
    this.socket.write(text, 'latin1');
  }
}

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
    const tally = new Tally();
    const open = async (): Promise<Producer> => new Producer((await gateway.socket(certificate)).socket, tally);
    const steady: Producer[] = [];
    while (steady.length < CONNECTIONS) steady.push(await open());

    let over = false;
    const visiting = (async () => {
      let visitors = 0;
      for (; !over; visitors += 1) {
        const visitor = await open();
        visitor.send(tally.next());
        await eventually('the visitor is answered', () => visitor.owed === 0, 60_000);
        visitor.socket.destroy();
        await delay(1000 / NEW_CONNECTIONS_PER_S);
      }
      return visitors;
    })();
    const memory = { gateway: [] as number[], consumer: [] as number[] };
    const start = performance.now();
    let due = 0;
    let withheld = 0;
    for (let second = 0; second < SECONDS;) {
      await delay(TICK_MS);
      const elapsedS = (performance.now() - start) / 1000;
      for (; due < Math.min(elapsedS, SECONDS) * RATE_PER_S; due += 1) {
        const producer = steady[due % CONNECTIONS] ?? assert.fail();
        if (producer.owed < OWED_MAX) producer.send(tally.next());
        else withheld += 1;
      }
      if (elapsedS < second + 1) continue;
      second += 1;
      memory.gateway.push(residentBytes(gateway.child.pid));
      memory.consumer.push(residentBytes(consumer.child.pid));
    }
    over = true;
    const visitors = await visiting;
    await eventually('every answer is here', () => steady.every(({ owed }) => owed === 0), 60_000);
    for (const { socket } of steady) socket.destroy();

    t.diagnostic(`${tally.sent} requests, ${withheld} not sent because answers were late, ${visitors} visitors`);
    t.diagnostic(JSON.stringify(Object.fromEntries([...tally.answers].sort())));
    for (const [name, samples] of Object.entries(memory)) {
      const [first, middle, last] = [0, 1, 2].map((third) => mean(samples, third)) as [number, number, number];
      t.diagnostic(`${name}: ${[first, middle, last].map((bytes) => (bytes / 2 ** 20).toFixed(1)).join(' → ')} MiB`);
      assert.ok(last <= GROWTH_MAX * middle, `${name} grows: ${last} bytes after ${middle}`);
    }
    for (const name of tally.answers.keys()) assert.match(name, /^(new (202|503)|repeated (202|503)|refused 400)$/);
    const rows = await eventually(
      'every accepted event has landed',
      async () => {
        const count = await store.count();
        return count >= tally.accepted && count;
      },
      120_000,
    );
    assert.ok(rows <= tally.accepted + tally.unknown, `${rows} rows for ${tally.accepted} accepted events`);
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

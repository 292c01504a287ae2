// Connections that bring a client certificate leave nothing behind: some versions of node have kept native memory of
// each, which no heap limit bounds.
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { it } from 'node:test';
import { promisify } from 'node:util';
import { TestGateway } from '../support/gateway.ts';
import { Pki } from '../support/pki.ts';
import { TestRedis } from '../support/redis.ts';
import { assertAlive } from '../support/verdicts.ts';

const CONNECTIONS = 5_000;
const GROWTH_BYTES_MAX = 10 << 20;
/** What is kept of each connection grows in every round; what the collector has not taken yet does not. */
const ROUNDS_MAX = 3;
/** A client in C: one in JavaScript would take most of the machine. */
const OPENSSL = execFileSync(new URL('../../bin/ensure-command', import.meta.url).pathname, ['openssl', 'openssl'], {
  encoding: 'utf8',
}).trim();

const run = promisify(execFile);

/** As many connections take minutes on a busy machine. */
const TIMEOUT_MS = 600_000;

it(
  '5,000 connections with client certificates add less than 10 MiB to the memory that the 5,000 before them took',
  { timeout: TIMEOUT_MS },
  async () => {
    const [redis, pki] = await Promise.all([TestRedis.start(), Pki.create()]);
    const gateway = await TestGateway.start(redis, pki, {
      NODE_OPTIONS: '--max-old-space-size=64 --max-semi-space-size=2',
    });
    const producer = await pki.producer('one');
    const cert = pki.write('one.pem', producer.cert);
    const key = pki.write('one-key.pem', producer.key);
    const some = async (): Promise<number> => {
      const { stdout } = await run(OPENSSL, [
        ...['s_time', '-new', '-tls1_3', '-connect', `127.0.0.1:${gateway.port}`],
        // With the authority: without it the folder of the system's authorities is read for each connection.
        ...['-CAfile', pki.path('ca.pem'), '-cert', cert, '-key', key, '-time', '2'],
      ]);
      return Number(/(\d+) connections in \d+ real/.exec(stdout)?.[1]);
    };
    const connect = async (): Promise<void> => {
      for (let made = 0; made < CONNECTIONS;) {
        for (const count of await Promise.all([some(), some()])) {
          assert.ok(count > 0);
          made += count;
        }
      }
    };
    await connect();
    const grown: number[] = [];
    while (grown.length < ROUNDS_MAX && Math.min(...grown) >= GROWTH_BYTES_MAX) {
      const before = residentBytes(gateway.child.pid);
      await connect();
      grown.push(residentBytes(gateway.child.pid) - before);
    }
    assert.ok(Math.min(...grown) < GROWTH_BYTES_MAX, `${grown.join(', ')} bytes more`);
    await assertAlive(gateway);
  },
);

function residentBytes(pid: number | undefined): number {
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1024;
}

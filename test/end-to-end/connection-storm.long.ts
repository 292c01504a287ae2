// Clients that all begin anew at once, as after a deployment: each of them is answered. A bare server of node:https is
// asked the same way, as a reference for what this machine can do.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer, Agent, request } from 'node:https';
import type { AddressInfo } from 'node:net';
import { it } from 'node:test';
import { createSecureContext, type SecureContext } from 'node:tls';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { event, PATIENT, TestGateway } from '../support/gateway.ts';
import { Pki } from '../support/pki.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd } from '../support/scope.ts';
import { assertAlive } from '../support/verdicts.ts';

const CLIENTS = 1_000;
const ANSWERED_WITHIN_MS = 30_000;

interface Storm {
  readonly port: number;
  readonly tls: Readonly<Record<'ca' | 'cert' | 'key', string>>;
}

/** What became of the clients: how many were answered with each status, or failed with each code. */
interface Aftermath {
  readonly counts: Readonly<Record<string, number>>;
  readonly lastMs: number;
}

if (isMainThread)
  it(`${CLIENTS} clients that connect at once are all answered within ${ANSWERED_WITHIN_MS / 1000} s`, async (t) => {
    const [redis, pki] = await Promise.all([TestRedis.start(), Pki.create()]);
    const { cert, key } = await pki.producer('one');
    const tls = { ca: pki.authority.certificate, cert, key };
    const bare = createServer(
      {
        key: readFileSync(pki.path('server-key.pem')),
        cert: readFileSync(pki.path('server.pem')),
        ca: tls.ca,
        requestCert: true,
        rejectUnauthorized: false,
      },
      (asked, response) => void asked.resume().on('end', () => response.writeHead(202).end('{}')),
    );
    await new Promise<void>((resolve) => bare.listen(0, '127.0.0.1', resolve));
    atEnd(() => void bare.close());
    const reference = await storm({ port: (bare.address() as AddressInfo).port, tls });
    t.diagnostic(`node:https: ${JSON.stringify(reference)}`);
    const gateway = await TestGateway.start(redis, pki, PATIENT);
    const { counts, lastMs } = await storm({ port: gateway.port, tls });
    t.diagnostic(`gateway: ${JSON.stringify({ counts, lastMs })}`);
    assert.deepEqual(counts, { 202: CLIENTS });
    assert.ok(lastMs < ANSWERED_WITHIN_MS, `${lastMs} ms`);
    await assertAlive(gateway);
  });

/** In a thread of its own, so that the reference is not slowed by its own clients. */
function storm(workerStorm: Storm): Promise<Aftermath> {
  const worker = new Worker(new URL(import.meta.url), { workerData: { storm: workerStorm }, execArgv: [] });
  return new Promise((resolve, reject) => {
    worker.once('message', resolve);
    worker.once('error', reject);
  });
}

async function connectAll({ port, tls }: Storm): Promise<Aftermath> {
  const secureContext = createSecureContext(tls);
  const sinceMs = performance.now();
  const outcomes = await Promise.all(
    Array.from({ length: CLIENTS }, (_, at) => outcomeOf(port, secureContext, event(`storm-${port}-${at}`))),
  );
  const counts: Record<string, number> = {};
  for (const outcome of outcomes) counts[outcome] = (counts[outcome] ?? 0) + 1;
  return { counts, lastMs: Math.round(performance.now() - sinceMs) };
}

function outcomeOf(port: number, secureContext: SecureContext, body: string): Promise<string> {
  return new Promise((resolve) => {
    const asked = request({
      host: '127.0.0.1',
      port,
      agent: new Agent({ keepAlive: false, secureContext }),
      method: 'POST',
      path: '/events',
      headers: { 'content-type': 'application/json', 'content-length': body.length },
    });
    asked.on('response', (response) => response.resume().on('end', () => resolve(String(response.statusCode))));
    asked.on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    asked.end(body);
  });
}

if (!isMainThread && typeof workerData === 'object' && workerData !== null && 'storm' in workerData)
  void connectAll((workerData as { readonly storm: Storm }).storm).then((after) => parentPort?.postMessage(after));

// An open loop with autocannon's `overallRate` and a new body for each request.
//
// Fact: `setupRequest`, `setBody` and `idReplacement` build each request from objects. Choice: each client's request
// list returns the bytes of the workload. Effect: the generator uses 0.6 times as much CPU time per request, which
// leaves more of the machine to the gateway.
//
// Fact: every autocannon client sends its requests for one second at full speed and then waits until the second has
// passed, and all clients of an instance do so at the same time. Choice: several instances, started within one
// second. Effect: the load is even. The tally records latencies, because autocannon rounds them to whole
// milliseconds; its correction for coordinated omission is the same.
import autocannon from 'autocannon';
import { readFileSync } from 'node:fs';
import type { LoadOptions } from './options.ts';
import { Tally, wait } from './tally.ts';
import { requestSource } from './workload.ts';

const INSTANCES = 10;
const OFFERED_MIN = 0.95;

/** A method of autocannon's client that is missing from its type declarations. */
interface RequestBytes {
  getRequestBuffer(): Buffer;
}

const options = JSON.parse(process.argv[2] ?? '{}') as LoadOptions;
const tlsOptions = {
  ca: readFileSync(options.caPath),
  cert: readFileSync(options.certPath),
  key: readFileSync(options.keyPath),
};
const rate = Math.round(options.ratePerS ?? 1000);
const nextRequest = requestSource(options);
const tally = new Tally();
let stopped = false;

/** Splits `total` into `of` whole shares that add up to `total`. Returns the share at index `at`. */
const share = (total: number, of: number, at: number): number =>
  Math.floor((total * (at + 1)) / of) - Math.floor((total * at) / of);

const instances: { stop(): void }[] = [];
const count = Math.min(INSTANCES, options.connections);
for (let at = 0; at < count; at += 1) {
  const connections = share(options.connections, count, at);
  const overallRate = share(rate, count, at);
  const expectedIntervalUs = (1_000_000 * connections) / overallRate;
  const instance = autocannon(
    {
      url: `https://127.0.0.1:${options.port}`,
      connections,
      overallRate,
      duration: 3600,
      tlsOptions,
      requests: [{ method: 'POST', path: '/events' }],
      setupClient: (client) => {
        (client as unknown as RequestBytes).getRequestBuffer = () => {
          tally.offered();
          return Buffer.from(nextRequest(), 'latin1');
        };
      },
    },
    () => undefined,
  );
  instance.on('response', (_client, status, _bytes, latencyMs) =>
    tally.answered(String(status), latencyMs * 1000, expectedIntervalUs),
  );
  instance.on('reqError', () => {
    if (!stopped) tally.broken();
  });
  instances.push(instance);
  await wait(1000 / count);
}

await tally.run(options);
stopped = true;
tally.noteOffer(options, OFFERED_MIN);
for (const instance of instances) instance.stop();
tally.tell();

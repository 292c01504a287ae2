// An open loop with autocannon: `overallRate`, and a new body for each request.
//
// Fact: `setupRequest`, `setBody` and `idReplacement` build each request from objects. Choice: each client's request
// list returns the workload's bytes. Effect: 0.6 of the CPU time per request, so the gateway gets more of the machine.
//
// Fact: each autocannon client sends its share of a second at full speed and then waits for the end of the second, all
// clients at the same moment. Choice: several instances that start within one second, so the load is even. Latencies
// are recorded here, because autocannon keeps whole milliseconds; the correction for coordinated omission is the same.
import autocannon from 'autocannon';
import { readFileSync } from 'node:fs';
import type { LoadOptions } from './options.ts';
import { Tally, wait } from './tally.ts';
import { requestSource } from './workload.ts';

const INSTANCES = 10;
const OFFERED_MIN = 0.95;

/** A method of autocannon's client that its type package lacks. */
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

/** Whole shares that add up to `total`. */
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

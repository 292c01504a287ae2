// An open-loop load generator: autocannon with `overallRate`, and a new body for each request.
//
// Its fastest honest use. Fact: `setupRequest`, `setBody` and `idReplacement` build the whole request anew, through
// objects, for each one. Choice: each client's list of requests is one that needs no building, and the bytes to send
// are asked of the workload. Measured in one alternating run: 0.6 of the CPU time for each request; the raw client
// takes 0.4.
//
// Fact: autocannon keeps a rate by letting each client send its share of a second at full speed and then wait for the
// second's end, all clients at the same moment. Choice: several instances, started one after the other within a second,
// so that load comes all the time. What it says of coordinated omission is kept: latencies are recorded with the
// interval that a client's rate sets, so an answer that holds up later requests counts for those too. They are recorded
// here, because autocannon keeps whole milliseconds and takes 1 ms for every client's interval.
//
// What it cannot offer on a machine, it says in the result's notes.
import autocannon from 'autocannon';
import { readFileSync } from 'node:fs';
import type { LoadOptions } from './options.ts';
import { Tally, wait } from './tally.ts';
import { requestSource } from './workload.ts';

const INSTANCES = 10;
const OFFERED_MIN = 0.95;

/** The part of autocannon's client that its type package leaves out. */
interface RequestBytes {
  getRequestBuffer(): Buffer;
}

const options = JSON.parse(process.argv[2] ?? '{}') as LoadOptions;
const tls = {
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
      tlsOptions: tls,
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

// Uses ingest-client on the runtime that runs this file and prints the results as JSON. Argument: JSON with the
// gateway's `url`, PEM texts `cert`, `key` and `ca`, another server's `tls`, and a `folder`.
import { join } from 'node:path';
import { createRequire } from 'node:module';
import { createClient, sendEvents } from 'ingest-client';
import { startFakeGateway } from 'ingest-client/testing';

const { url, cert, key, ca, tls, folder } = JSON.parse(process.argv[2]);
const producer = { cert, key, ca };

async function outcome(events, options) {
  const counts = {};
  for await (const { kind, code = '', duplicate = false } of sendEvents(events, options)) {
    const name = [kind, code, duplicate ? 'duplicate' : ''].filter(Boolean).join(' ');
    counts[name] = (counts[name] ?? 0) + 1;
  }
  return counts;
}

const some = (prefix, count) =>
  Array.from({ length: count }, (_, at) => ({ id: `${prefix}-${at}`, type: 'test.event' }));
const run = `client-${process.pid}`;
const seen = {};

seen.real = await outcome([...some(run, 100), { id: 'no-type' }], { url, ...producer });
seen.realAgain = await outcome(some(run, 100), { url, ...producer, concurrency: 1 });

const client = createClient({ url, ...producer });
const sent = await Promise.all(some(`${run}-single`, 200).map((event) => client.send(event)));
seen.client = sent.filter(({ kind }) => kind === 'accepted').length;
await client.close();
seen.required = typeof createRequire(import.meta.url)('ingest-client').createClient;

const gateway = await startFakeGateway({ tls: { ...tls, ca } });
gateway.next('unavailable', 'noAnswer', 'rateLimited');
const journal = join(folder, `${run}.journal`);
const options = { url: gateway.url, ...producer, timeoutMs: 5_000, journal };
const stop = new AbortController();
gateway.giveAway('taken');
seen.fake = await outcome([...some('fake', 20), { id: 'taken', type: 't' }], options);
gateway.next('unavailable', 'unavailable');
seen.stopped = await outcome(some('left', 2), { ...options, signal: stop.signal, onRetry: () => stop.abort() });
seen.resumed = await outcome([], options);
seen.accepted = gateway.events.length;
seen.untrusted = await outcome(some('x', 1), { url: gateway.url, cert, key, tries: 2 });
await gateway.close();
seen.gone = await outcome(some('gone', 1), { url: gateway.url, ...producer, tries: 2 });

const plain = await startFakeGateway();
seen.plain = await outcome(some('plain', 3), { url: plain.url });
await plain.close();
console.log(JSON.stringify(seen));

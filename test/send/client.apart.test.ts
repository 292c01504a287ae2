import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { getEventListeners } from 'node:events';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import { join } from 'node:path';
import { createServer as createTcpServer, type Socket } from 'node:net';
import { createServer as createTlsServer, type TlsOptions } from 'node:tls';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { startFakeGateway, type FakeGateway, type NextAnswer } from '../../lib/send/fake-gateway.ts';
import { createClient, sendEvents } from '../../lib/send/client.ts';
import type { EventInput, JournalOptions, Retry, SendEventsOptions, SendResult } from '../../lib/send/client.ts';
import { Pki } from '../support/pki.ts';
import { freePort } from '../support/free-port.ts';
import { openLink } from '../support/link.ts';
import { atEnd, eventually, everyOf, temporaryFolder } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';
import { listening } from './server.ts';

let gateway: FakeGateway;
const pki = await Pki.create();
const { cert, key } = await pki.producer('client');
const identity = { cert, key, ca: pki.authority.certificate };
beforeEach(async () => {
  gateway = await startFakeGateway();
});
afterEach(() => gateway.close());

const kinds = async (results: AsyncIterable<{ readonly kind: string }>): Promise<string[]> =>
  (await everyOf(results)).map(({ kind }) => kind);

/** Returns the different kinds of results. */
const kindsOf = async (sent: readonly Promise<{ readonly kind: string }>[]): Promise<string[]> => [
  ...new Set((await Promise.all(sent)).map(({ kind }) => kind)),
];

const event = (id: string): { id: string; type: string } => ({ id, type: 't' });

const events = (stem: string, count: number) => Array.from({ length: count }, (_, at) => event(`${stem}-${at}`));

describe('a client', () => {
  it('sends events of many callers, as many at a time as its concurrency, and counts those without a result', async () => {
    let [open, most] = [0, 0];
    const release = Promise.withResolvers<void>();
    const server = createServer((request, response) => {
      if (request.method === 'GET') return void response.end();
      most = Math.max(most, (open += 1));
      void Promise.all([text(request), release.promise]).then(([body]) => {
        open -= 1;
        const { id } = JSON.parse(body) as { id: string };
        response.writeHead(202, { 'Content-Type': 'application/json' }).end(JSON.stringify({ id, status: 'accepted' }));
      });
    });
    const url = `http://127.0.0.1:${await listening(server)}`;
    const client = createClient({ url, concurrency: 8 });
    const all = events('a', 1_000);
    const sent = all.map((one) => client.send(one));
    assert.equal(client.outstanding, 1_000);
    await eventually('eight are open', () => open >= 8);
    await fetch(url); // Other requests that were sent before have arrived now.
    release.resolve();
    for (const [at, result] of (await Promise.all(sent)).entries())
      assert.ok(result.kind === 'accepted' && result.event === all[at], JSON.stringify(result));
    assert.equal(most, 8);
    assert.equal(client.outstanding, 0);
    await client.close();
  });

  it('survives restarts of the gateway, and connections that the gateway closes', async () => {
    const link = await openLink({ host: '127.0.0.1', port: Number(new URL(gateway.url).port) });
    atEnd(() => link.close());
    const client = createClient({ url: `http://127.0.0.1:${link.port}` });
    assert.equal((await client.send(event('before'))).kind, 'accepted');
    link.cut();
    const sent = events('during', 100).map((one) => client.send(one));
    await eventually('the gateway is missed', () => client.outstanding === 100);
    const other = await startFakeGateway();
    atEnd(() => other.close());
    link.retarget({ host: '127.0.0.1', port: Number(new URL(other.url).port) });
    link.mend();
    assert.deepEqual(await kindsOf(sent), ['accepted']);
    assert.equal(other.events.length, 100);
    await client.close();
  });

  it('sends a source while it sends single events, and closes when all have a result', async () => {
    const client = createClient({ url: gateway.url });
    const single = client.send(event('single'));
    assert.deepEqual(await kinds(client.sendEvents(events('many', 50))), Array(50).fill('accepted'));
    assert.equal((await single).kind, 'accepted');
    gateway.next('unavailable', 'noAnswer');
    const last = events('last', 3).map((one) => client.send(one));
    await client.close({ timeoutMs: Infinity });
    assert.equal(client.outstanding, 0);
    await assert.rejects(client.send(event('late')), /closed/);
    assert.deepEqual(await kindsOf(last), ['accepted']);
    assert.deepEqual(await client.close(), []);
  });

  it('does not keep a process alive that has nothing to send', async () => {
    const library = new URL('../../lib/send/client.ts', import.meta.url).href;
    const script = `import { createClient } from ${JSON.stringify(library)};
      const { kind } = await createClient({ url: process.argv[1] }).send({ id: 'only', type: 't' });
      process.stdout.write(kind);`;
    const args = ['--disable-warning=ExperimentalWarning', '--input-type=module', '--eval', script, gateway.url];
    const { stdout } = await promisify(execFile)(process.execPath, args, { timeout: 20_000 });
    assert.equal(stdout, 'accepted');
  });

  it('refuses values that are not events with a TypeError', async () => {
    const client = createClient({ url: gateway.url });
    const refusal = { name: 'TypeError', message: /expected (one event|an array or iterable of events), found/ };
    for (const value of [undefined, null, 7, [event('a')]] as never[])
      await assert.rejects(client.send(value), refusal);
    for (const value of [undefined, null, 'text', Buffer.from('{}'), event('a'), 7] as never[]) {
      assert.throws(() => client.sendEvents(value), refusal);
      assert.throws(() => sendEvents(value, { url: gateway.url }), refusal);
    }
    await client.close();
    assert.equal(gateway.requests, 0);
  });
});

it('a client leaves refused events in its journal, and gives it to the next client before it has closed', async () => {
  const onResumed = (result: SendResult<Buffer>): void => void resumed.push(result.kind);
  const resumed: string[] = [];
  const options = { url: gateway.url, journal: join(temporaryFolder(), 'journal'), onResumed };
  gateway.next(...Array<NextAnswer>(21).fill(401));
  const expired = createClient(options);
  await Promise.all(events('held', 20).map((one) => expired.send(one)));
  const other = createClient(options);
  await assert.rejects(other.send(event('other')), /another client of this process has this journal open/);
  void other.close();
  void expired.close();
  const renewed = createClient(options);
  assert.equal((await renewed.send(event('new'))).kind, 'accepted');
  await eventually('all events are accepted', () => resumed.length === 20);
  assert.deepEqual([...new Set(resumed)], ['accepted']);
  assert.equal(await renewed.resume(), 0);
  await renewed.close();
  assert.equal(gateway.events.length, 21);
});

describe('a client that the gateway does not accept for a while', () => {
  it('sends journaled events again without slots when they used up their tries, also after its file was removed', async () => {
    const resumed: string[] = [];
    const journal = join(temporaryFolder(), 'journal');
    const onResumed = ({ kind, event: body }: SendResult<Buffer>): void => void resumed.push(`${kind} ${String(body)}`);
    const client = createClient({ url: gateway.url, journal, tries: 1, concurrency: 1, onResumed });
    // The client may try the first event again before the second one.
    gateway.next(...Array<NextAnswer>(100).fill('unavailable'));
    assert.equal((await client.send(event('a'))).kind, 'refused');
    renameSync(journal, `${journal}.1`);
    assert.equal((await client.send(event('b'))).kind, 'refused');
    gateway.reset();
    assert.equal((await client.send(event('c'))).kind, 'accepted');
    await eventually('both are sent', () => resumed.length === 2);
    assert.deepEqual(
      resumed,
      ['a', 'b'].map((id) => `accepted ${JSON.stringify(event(id))}`),
    );
    gateway.next(...Array<NextAnswer>(100).fill('unavailable'));
    assert.equal((await client.send(event('d'))).kind, 'refused');
    assert.deepEqual(await kinds(client.sendEvents([])), ['refused']);
    assert.equal(await client.resume(), 1);
    gateway.reset();
    assert.equal(await client.resume(), 0);
    await client.close();
    assert.deepEqual(await kinds(sendEvents([], { url: gateway.url, journal })), []);
  });

  it('yields the results of all events in its journal, also of one that it has begun to send', async () => {
    const journal = join(temporaryFolder(), 'journal');
    writeFileSync(journal, `${JSON.stringify({ put: 1, body: JSON.stringify(event('a')) })}\n`);
    gateway.next('silence');
    const client = createClient({ url: gateway.url, journal, timeoutMs: 300 });
    await eventually('it has begun', () => gateway.requests === 1);
    assert.deepEqual(await kinds(client.sendEvents([])), ['accepted']);
    await client.close();
  });

  it('reports an event of its journal that is refused for good later', async () => {
    gateway.next('unavailable', 409);
    const resumed: SendResult<Buffer>[] = [];
    const onResumed = (result: SendResult<Buffer>): unknown => resumed.push(result);
    const journal = join(temporaryFolder(), 'journal');
    const client = createClient({ url: gateway.url, journal, tries: 1, onResumed });
    assert.equal((await client.send(event('a'))).kind, 'refused');
    const [result] = await eventually('it is reported', () => resumed.length > 0 && resumed);
    assert.ok(result?.kind === 'refused' && result.code === 'EVENT_ID_CONFLICT');
    await client.close();
  });

  it('pauses for at most ten seconds, and closes without waiting for the end of a pause', async (t) => {
    gateway.next(...Array<NextAnswer>(20).fill('unavailable'));
    const client = createClient({ url: gateway.url, journal: join(temporaryFolder(), 'journal'), tries: 1 });
    const pauses: number[] = [];
    // The first pauses end at once, and the last one never does. Tries have 30 seconds.
    t.mock.method(SYSTEM.clock, 'after', (ms: number, run: () => void) => {
      if (ms < 29_000 && pauses.push(ms) < 12) setImmediate(run);
      return { close: () => undefined, unref: () => undefined };
    });
    assert.equal((await client.send(event('a'))).kind, 'refused');
    await eventually('the client pauses', () => pauses.length === 12);
    let isClosed = false;
    void client.close().finally(() => (isClosed = true));
    await eventually('the client is closed', () => isClosed);
    assert.ok((pauses[0] ?? 0) <= 500 && pauses.every((ms) => ms <= 10_000) && (pauses.at(-1) ?? 0) >= 5_000);
  });

  it('sends the journaled events that a gateway accepts while it refuses others, as those of one of its queues', async () => {
    const journal = join(temporaryFolder(), 'journal');
    const lines = Array.from({ length: 40 }, (_, at) => {
      const body = JSON.stringify(event(`${at % 2 === 0 ? 'dead' : 'live'}-${at}`));
      return `${JSON.stringify({ put: at + 1, body })}\n`;
    });
    writeFileSync(journal, lines.join(''));
    const server = createServer((request, response) => {
      void text(request).then((body) => {
        const { id } = JSON.parse(body) as { id: string };
        const accepts = id.startsWith('live');
        response.setHeader('X-Request-Id', String(request.headers['x-request-id']));
        response.writeHead(accepts ? 202 : 503, { 'Content-Type': 'application/json' });
        response.end(
          JSON.stringify(accepts ? { id, status: 'accepted' } : { code: 'QUEUE_UNAVAILABLE', retryable: true }),
        );
      });
    });
    let resumed = 0;
    const url = `http://127.0.0.1:${await listening(server)}`;
    const client = createClient({ url, journal, concurrency: 4, onResumed: () => (resumed += 1) });
    await eventually('all others are accepted', () => resumed === 20);
    await client.close();
  });

  it('ends at the time limit of close, with the events that were not sent, and so does a call whose signal aborts', async () => {
    gateway.next(...Array<NextAnswer>(3).fill('silence'));
    const told: string[] = [];
    const onResult = ({ kind }: SendResult<unknown>): unknown => told.push(kind);
    const client = createClient({ url: gateway.url, concurrency: 2, pipelining: 1, onResult });
    const own = new AbortController();
    const [silent, waiting, aborted, held] = [event('a'), event('b'), event('c'), event('d')];
    const sent = [silent, waiting, held].map((one) => client.send(one));
    await eventually('two are sent', () => gateway.requests === 2);
    const one = client.send(aborted, { signal: own.signal });
    await new Promise(setImmediate);
    own.abort();
    assert.equal((await one).kind, 'interrupted');
    assert.deepEqual(await client.close({ timeoutMs: 1 }), [silent, waiting, held]);
    assert.deepEqual(await kindsOf(sent), ['interrupted']);
    assert.deepEqual(told, Array(4).fill('interrupted'));
    const other = createClient({ url: gateway.url });
    gateway.next('silence');
    const late = new AbortController();
    const started = other.send(event('late'), { signal: late.signal });
    await eventually('it is sent', () => gateway.requests === 3);
    late.abort();
    assert.ok((await started).kind === 'interrupted' && (await started).durationMs < 20_000);
    await other[Symbol.asyncDispose]();
  });

  it('leaves nothing on a signal of many calls, which may live as long as the process', async () => {
    const { signal } = new AbortController();
    const client = createClient({ url: gateway.url, concurrency: 2, journal: join(temporaryFolder(), 'journal') });
    gateway.next('unavailable', 'noAnswer');
    const sent = events('many', 20).map((one) => client.send(one, { signal }));
    assert.deepEqual(await kindsOf(sent), ['accepted']);
    for (const stem of ['a', 'b']) await kinds(client.sendEvents(events(stem, 5), { signal }));
    assert.equal(getEventListeners(signal, 'abort').length, 0);
    await client.close();
  });

  it('ends at the time limit of close while another client has its journal, and then opens none', async () => {
    const journal = join(temporaryFolder(), 'journal');
    const lock = '{"bootId":"another","token":"a","beat":1}';
    writeFileSync(`${journal}.lock`, lock);
    const client = createClient({ url: gateway.url, journal });
    const sent = client.send(event('a'));
    const many = assert.rejects(kinds(client.sendEvents([event('b')])), /was closed/);
    const startMs = performance.now();
    assert.deepEqual(await client.close({ timeoutMs: 500 }), [event('a')]);
    assert.equal((await sent).kind, 'interrupted');
    await many;
    await assert.rejects(client.resume(), /was closed/);
    await assert.rejects(kinds(client.sendEvents([])), /was closed/);
    const idle = createClient({ url: gateway.url, journal });
    await new Promise(setImmediate);
    await idle.close();
    const unopened = createClient({ url: gateway.url, journal: `${journal}.new` });
    await unopened.close();
    await assert.rejects(unopened.resume(), /was closed/);
    assert.ok(!existsSync(`${journal}.new`));
    // The lease of the other client ends after ten seconds.
    assert.ok(performance.now() - startMs < 5_000);
    assert.equal(readFileSync(`${journal}.lock`, 'utf8'), lock);
    assert.equal(gateway.requests, 0);
  });

  it('ends no application whose promises nobody awaits, and sends nothing if it is not enabled', async () => {
    const library = new URL('../../lib/send/client.ts', import.meta.url).href;
    const script = `import { createClient } from ${JSON.stringify(library)};
      const [url, closed] = process.argv.slice(1);
      createClient({ url: closed, tries: 2, onResult: ({ kind, retryable, tries, durationMs, answer }) =>
        console.log(kind, retryable, tries, durationMs >= 50, answer.error) }).send({ id: 'a', type: 't' });
      createClient({ url, journal: '/absent/journal' }).send({ id: 'a', type: 't' });
      const client = createClient({ url });
      client.send(7);
      for (const call of [{ headers: { Host: 'b' } }, { signal: 7 }, null]) client.send({ id: 'a', type: 't' }, call);
      for (const token of [() => Promise.reject(new Error('no token')), () => undefined]) {
        const { answer } = await createClient({ url, tries: 1, token }).send({ id: 'a', type: 't' });
        console.log(answer.error);
      }
      await client.close({ timeoutMs: 300_000 });
      client.send({ id: 'late', type: 't' });
      const off = createClient({ enabled: false, journal: '/absent/journal' });
      console.log((await off.send({ id: 'off', type: 't' })).kind, await off.close());`;
    const args = ['--disable-warning=ExperimentalWarning', '--input-type=module', '--eval', script, gateway.url];
    const url = `http://127.0.0.1:${await freePort()}`;
    const { stdout, stderr } = await promisify(execFile)(process.execPath, [...args, url], { timeout: 60_000 });
    assert.match(
      stdout,
      /^token: .* a promise\ntoken: .*\ndisabled \[\]\nrefused true 2 true no gateway at this address: .*ECONNREFUSED.*"url"/,
    );
    assert.equal(stderr, '');
    assert.equal(gateway.requests, 0);
  });
});

it('a client sends the headers of a call, and compresses', async () => {
  const received: IncomingHttpHeaders[] = [];
  const server = createServer((request, response) => {
    received.push(request.headers);
    request.resume().on('end', () => {
      response.setHeader('X-Request-Id', String(request.headers['x-request-id']));
      response.writeHead(503, { 'Content-Type': 'application/problem+json' });
      response.end('{"code":"QUEUE_UNAVAILABLE","retryable":true}');
    });
  });
  const url = `http://127.0.0.1:${await listening(server)}`;
  const plain = { 'X-Request-Id': 'order-7', traceparent: '00-ab-cd-01' };
  const client = createClient({ url, tries: 2, compression: 'gzip' });
  for (const headers of [plain, new Headers(plain)]) {
    const result = await client.send({ ...event('a'), text: 'x'.repeat(500) }, { headers });
    assert.ok(result.kind === 'refused' && result.code === 'QUEUE_UNAVAILABLE' && result.requestId === 'order-7');
    assert.ok(result.tries === 2 && result.durationMs > result.answerMs);
  }
  await client.send(event('a'));
  for (const { 'content-encoding': coding } of received.splice(-2)) assert.equal(coding, undefined, 'would be longer');
  const reserved =
    'Authorization Connection Content-Encoding Content-Length Content-Type Expect Host Keep-Alive TE Trailer Transfer-Encoding Upgrade';
  for (const [name, value] of [
    ...reserved.split(' ').map((name) => [name, '1'] as const),
    ['a b', 'c'],
    ['a', 'b\r\nc: d'],
    ['X-Request-Id', ''],
    ['traceparent', undefined as never],
  ] as const)
    await assert.rejects(client.send(event('a'), { headers: { [name]: value } }), { name: 'TypeError' });
  await client.close();
  for (const fields of received) {
    assert.deepEqual(
      ['x-request-id', 'traceparent', 'content-encoding'].map((name) => fields[name]),
      ['order-7', '00-ab-cd-01', 'gzip'],
    );
    assert.ok(Number(fields['content-length']) < 200);
  }
  for (const compression of ['gzip', 'zstd'] as const) {
    const compressed = sendEvents([{ ...event(compression), text: 'x'.repeat(500) }], {
      url: gateway.url,
      compression,
    });
    assert.deepEqual(await kinds(compressed), ['accepted']);
  }
});

it('a client keeps its own timers while fake ones, which are numbers, replace the global functions', async (t) => {
  for (const name of ['setTimeout', 'setInterval', 'setImmediate'] as const)
    t.mock.method(globalThis, name, (() => 7) as never);
  const client = createClient({ url: gateway.url, journal: join(temporaryFolder(), 'journal') });
  gateway.next('unavailable', 'noAnswer');
  const result = await client.send(event('a'));
  await client.close({ timeoutMs: 60_000 });
  assert.ok(result.kind === 'accepted' && result.tries === 3);
});

it('a client calls functions for the certificate, key, authority and token of each connection', async () => {
  const { certificate: cert, key } = pki.server;
  const secure = await startFakeGateway({ tls: { cert, key, ca: pki.authority.certificate } });
  atEnd(() => secure.close());
  const strange = await Pki.create();
  let own: typeof identity = { ...(await strange.producer('client')), ca: strange.authority.certificate };
  let tokens = 0;
  const functions = { cert: () => own.cert, key: () => own.key, ca: () => own.ca, token: () => `t${(tokens += 1)}` };
  const client = createClient({ url: secure.url, connections: 1, ...functions });
  const sent = client.send(event('a'), {});
  await eventually('the authority is wrong', () => tokens > 1);
  for (const wrong of [
    { ...own, key: identity.key },
    { ...identity, cert: undefined as never },
  ]) {
    own = wrong;
    const before = tokens;
    await eventually('the certificate is wrong', () => tokens > before);
  }
  own = identity;
  assert.equal((await sent).kind, 'accepted');
  const connections = tokens;
  // A connection that was accepted before is refused when its certificate or token expires.
  secure.next(401);
  assert.deepEqual(await kinds(client.sendEvents(events('b', 30))), Array(30).fill('accepted'));
  assert.equal(tokens, connections + 1);
  secure.next(403);
  assert.equal((await client.send(event('c'))).kind, 'refused');
  // The first answer on a new connection is final.
  secure.next(401, 401);
  assert.equal((await client.send(event('d'))).kind, 'refused');
  assert.equal(tokens, connections + 2);
  await client.close();
});

describe('a client says what to do', () => {
  /** Asserts that a result has the reason after all tries, and that each try has a connection of its own. */
  async function assertReason(options: SendEventsOptions, message: RegExp): Promise<void> {
    const retries: Retry[] = [];
    const all = { ...identity, tries: 2, onRetry: (retry: Retry) => retries.push(retry), ...options };
    for await (const result of sendEvents(events('many', 12), all)) {
      assert.ok(result.kind === 'refused' && result.retryable && result.tries === 2, JSON.stringify(result));
      assert.equal(result.code, 'NO_ANSWER');
      assert.match((result.answer as { error: string }).error, message);
    }
    assert.equal(retries.length, 12);
  }
  const secured = (more: TlsOptions = {}, host?: string): Promise<number> => {
    const { certificate: cert, key } = pki.server;
    return listening(
      createTlsServer({ cert, key, ...more }).on('tlsClientError', () => undefined),
      host,
    );
  };

  it('if a gateway starts late, it waits', async () => {
    const port = await freePort();
    const client = createClient({ url: `http://127.0.0.1:${port}`, onRetry: () => void starts.resolve() });
    const starts = Promise.withResolvers<void>();
    const sent = client.send(event('early'));
    await starts.promise;
    const server = createServer((_request, response) =>
      response
        .writeHead(202, { 'Content-Type': 'application/json' })
        .end(JSON.stringify({ ...event('early'), status: 'accepted' })),
    );
    server.listen(port, '127.0.0.1');
    assert.equal((await sent).kind, 'accepted');
    await client.close();
    server.close();
  });

  it('if nothing listens at its port, or the server never completes a handshake', async () => {
    const url = `https://127.0.0.1:${await freePort()}`;
    await assertReason({ url }, /no gateway at this address: .*ECONNREFUSED.*check "url"/);
    for (const serve of [(socket: Socket) => socket.destroy(), (socket: Socket) => socket.end(), () => undefined]) {
      const silent = `https://127.0.0.1:${await listening(createTcpServer(serve))}`;
      await assertReason(
        { url: silent, timeoutMs: 100 },
        /disconnected before|ECONNRESET|closed before|no answer within 100 ms/,
      );
    }
  });

  it('if the server does not use TLS, or the URL of a gateway does not', async () => {
    const plain = createServer((_request, response) =>
      response
        .writeHead(400, { 'Content-Type': 'application/problem+json', 'X-Request-Id': 'its-own' })
        .end('{"code":"INVALID_EVENT","retryable":false,"detail":"this is a TLS port"}'),
    );
    const port = await listening(plain);
    // OpenSSL's own message names its source files.
    await assertReason({ url: `https://127.0.0.1:${port}` }, /not use TLS: [^:/]* \(ERR_SSL_\w+\); check the port/);
    await assertReason({ url: `http://127.0.0.1:${port}` }, /"url" must begin with https: this is a TLS port/);
  });

  it('if the server is not trusted or refuses the handshake, with a remedy for each reason', async () => {
    const url = `https://127.0.0.1:${await secured()}`;
    const { certificate: ca } = (await Pki.create()).authority;
    await assertReason({ url, ca }, /not trusted: .*"ca" must contain/);
    const elsewhere = { url: `https://127.0.0.2:${await secured({}, '127.0.0.2')}` };
    await assertReason(elsewhere, /not trusted: .*127\.0\.0\.2.*"url" must name a host/);
    const old = { server: true, notBefore: new Date(Date.now() - 9e6), notAfter: new Date(Date.now() - 8e6) };
    const { certificate, key } = await pki.authority.issue({ commonName: 'localhost', ...old });
    const expired = { url: `https://127.0.0.1:${await secured({ cert: certificate, key })}` };
    await assertReason(expired, /not trusted: .*expired.*certificate must be replaced/);
    const other = { url: `https://127.0.0.1:${await secured({ ALPNProtocols: ['h2'] })}` };
    await assertReason(other, /refused the TLS handshake: .*check "cert" and "key"/);
  });

  it('if the first ten answers refuse the producer, but not if they refuse a type', async () => {
    gateway.next('noAnswer', ...Array<NextAnswer>(5).fill(401), ...Array<NextAnswer>(5).fill(403));
    const found: string[] = [];
    const options = { url: gateway.url, concurrency: 1 };
    const refused = async (): Promise<void> => {
      for await (const { kind } of sendEvents(events('a', 100), { ...options, tries: 1 })) found.push(kind);
    };
    await assert.rejects(refused(), { name: 'SendingStopped', message: /does not accept this producer: .*403 / });
    // The first try has no answer.
    assert.deepEqual(found, Array(11).fill('refused'));
    const mixed: string[] = [];
    for await (const { kind } of sendEvents(events('b', 20), options))
      if (mixed.push(kind) === 1) gateway.next(...Array<NextAnswer>(19).fill(403));
    assert.deepEqual(mixed, ['accepted', ...Array<string>(19).fill('refused')]);
    gateway.next(...Array<NextAnswer>(19).fill('TYPE_NOT_ALLOWED'));
    const typed = await kinds(sendEvents(events('c', 20), options));
    assert.deepEqual(typed, [...Array<string>(19).fill('refused'), 'accepted']);
  });
});

describe('sendEvents', () => {
  it('sends text and the bytes that an event had when it was read unchanged, and objects as JSON', async () => {
    function* source(): Generator<EventInput> {
      yield ' {"id":"a","type":"t"}';
      // A source may use its buffer again.
      const bytes = Buffer.from('xx{"id":"0","type":"t"} ').subarray(2);
      for (let at = 0; at < 9; at += 1) {
        bytes.write(String(at), 7);
        yield bytes;
      }
      yield event('c');
    }
    assert.deepEqual(await kinds(sendEvents(source(), { url: gateway.url })), Array(11).fill('accepted'));
    const bytes = Array.from({ length: 9 }, (_, at) => `{"id":"${at}","type":"t"} `);
    const bodies = gateway.events.map(({ body }) => body).toSorted();
    assert.deepEqual(bodies, [' {"id":"a","type":"t"}', ...bytes, '{"id":"c","type":"t"}']);
  });

  it('refuses an event that cannot be serialized, sends the others, and keeps it out of the journal', async () => {
    const circular: Record<string, unknown> = { id: 'circular', type: 't' };
    circular['self'] = circular;
    const strange = [circular, { id: 'big', type: 't', n: 1n }, { id: 'none', type: 't', toJSON: () => undefined }];
    const events = [...strange, '{"id":"lone \ud800","type":"t"}', event('fine')] as EventInput[];
    const journal = join(temporaryFolder(), 'journal');
    for (const options of [{ url: gateway.url }, { url: gateway.url, journal }]) {
      const codes: string[] = [];
      for await (const result of sendEvents(events, options))
        codes.push(result.kind === 'refused' ? `${result.code} ${result.retryable} ${result.status}` : result.kind);
      assert.deepEqual(codes.toSorted(), [...Array<string>(4).fill('UNSERIALIZABLE false 0'), 'accepted']);
    }
    assert.equal(gateway.events.length, 1);
    assert.doesNotMatch(readFileSync(journal, 'utf8'), /circular|big|none|lone/);
  });

  it('reads at most its concurrency ahead, ends its source when the reader stops, and throws its errors', async () => {
    let read = 0;
    let ended = false;
    async function* source(): AsyncGenerator<EventInput> {
      try {
        for (;;) yield event(`endless-${(read += 1)}`);
      } finally {
        ended = true;
      }
    }
    let seen = 0;
    for await (const result of sendEvents(source(), { url: gateway.url, concurrency: 4 })) {
      assert.equal(result.kind, 'accepted');
      seen += 1;
      assert.ok(read <= seen + 5, `${read} read, ${seen} results`);
      if (seen === 20) break;
    }
    assert.ok(ended);
    function* failing(): Generator<EventInput> {
      yield event('before-the-failure');
      throw new Error('the source failed');
    }
    await assert.rejects(kinds(sendEvents(failing(), { url: gateway.url })), /the source failed/);
  });

  it('calls onRetry, stops by its signal, and respects the number of tries', async () => {
    gateway.next('unavailable', 'unavailable');
    assert.deepEqual(await kinds(sendEvents([event('a')], { url: gateway.url, tries: 1 })), ['refused']);
    const stop = new AbortController();
    const options = { url: gateway.url, signal: stop.signal, onRetry: () => stop.abort() };
    assert.deepEqual(await kinds(sendEvents([event('a')], options)), ['interrupted']);
    assert.equal(gateway.requests, 2);
  });

  it('sends nothing after an abort, and does not wait for its source', async () => {
    assert.deepEqual(await kinds(sendEvents([event('a')], { url: gateway.url, signal: AbortSignal.abort() })), []);
    assert.equal(gateway.requests, 0);
    const stop = new AbortController();
    async function* waiting(): AsyncGenerator<{ id: string; type: string }> {
      yield event('a');
      await new Promise(() => undefined);
    }
    for await (const { kind } of sendEvents(waiting(), { url: gateway.url, signal: stop.signal })) {
      assert.equal(kind, 'accepted');
      stop.abort();
    }
  });
});

describe('sendEvents with a journal', () => {
  const folder = temporaryFolder();
  let journals = 0;
  let options: JournalOptions<{ id: string; type: string }>;
  const journaled: string[] = [];
  beforeEach(() => {
    journaled.length = 0;
    const journal = join(folder, String((journals += 1)));
    options = { url: gateway.url, journal, onJournaled: ({ id }) => journaled.push(id) };
  });

  it('writes an event to the journal before its first try', async () => {
    gateway.next('unavailable');
    const onRetry = (): void => {
      assert.deepEqual(journaled, ['a']);
      assert.match(readFileSync(options.journal, 'utf8'), /^\{"put":1,"body":"\{\\"id\\":\\"a\\"/);
    };
    assert.deepEqual(await kinds(sendEvents([event('a')], { ...options, onRetry })), ['accepted']);
    assert.deepEqual(journaled, ['a'], 'once for all tries');
    assert.match(readFileSync(options.journal, 'utf8'), /\{"settled":1,"digest":".*"\}\n$/);
  });

  it('first sends the events of earlier runs: interrupted ones, those with used-up tries, and results nobody read', async () => {
    const stop = new AbortController();
    gateway.next('unavailable');
    const aborted = sendEvents([event('a')], { ...options, signal: stop.signal, onRetry: () => stop.abort() });
    assert.deepEqual(await kinds(aborted), ['interrupted']);
    gateway.next('unavailable', 'unavailable');
    const refused = sendEvents([event('b')], { ...options, tries: 1, concurrency: 1 });
    assert.deepEqual(await kinds(refused), ['refused', 'refused']);
    for await (const { kind } of sendEvents([event('c')], { ...options, concurrency: 1 }))
      if (kind === 'accepted') break;
    const results: string[] = [];
    for await (const { kind, event: one } of sendEvents([event('d')], { ...options, concurrency: 1 }))
      results.push(`${kind} ${Buffer.isBuffer(one) ? one.toString() : one.id}`);
    const resumed = ['a', 'b'].map((id) => `accepted ${JSON.stringify(event(id))}`);
    assert.deepEqual(results, [...resumed, 'accepted d']);
    assert.deepEqual(await kinds(sendEvents([], options)), []);
    assert.equal(gateway.events.map(({ id }) => id).join(), 'a,b,d');
  });

  it('keeps an event in the journal if its producer or the URL is refused, and no other refused event', async () => {
    // The client may try the first event again before the last one.
    gateway.next(401, 403, 'PRODUCER_DISABLED', ...Array<NextAnswer>(20).fill(401));
    assert.deepEqual(await kinds(sendEvents(events('a', 3), { ...options, concurrency: 1 })), Array(3).fill('refused'));
    gateway.reset();
    const nowhere = { ...options, url: `${gateway.url}/nowhere` };
    assert.deepEqual(await kinds(sendEvents([], nowhere)), Array(3).fill('refused'));
    assert.deepEqual(await kinds(sendEvents([], options)), Array(3).fill('accepted'));
    gateway.next('TYPE_NOT_ALLOWED');
    const refused = sendEvents([event('b'), event('')], { ...options, concurrency: 1 });
    assert.deepEqual(await kinds(refused), ['refused', 'refused']);
    assert.deepEqual(await kinds(sendEvents([], options)), []);
  });

  it('sends nothing that is not in its journal', async () => {
    const client = createClient({ url: gateway.url, journal: join(folder, 'absent', 'journal') });
    await assert.rejects(client.send(event('a')), { code: 'ENOENT' });
    assert.equal(gateway.requests, 0);
    mkdirSync(join(folder, 'absent'));
    assert.equal((await client.send(event('b'))).kind, 'accepted');
    await client.close();
    const onJournaled = (): void => assert.fail('not now');
    await assert.rejects(kinds(sendEvents([event('a')], { ...options, onJournaled })), /not now/);
    assert.equal(gateway.requests, 1);
    assert.deepEqual(await kinds(sendEvents([], options)), ['accepted']);
  });
});

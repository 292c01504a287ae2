import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { createServer as createTcpServer, type Socket } from 'node:net';
import { createServer as createTlsServer, type TlsOptions } from 'node:tls';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { startFakeGateway, type FakeGateway, type NextAnswer } from '../../lib/send/fake-gateway.ts';
import { createClient, sendEvents } from '../../lib/send/client.ts';
import type { EventInput, JournalOptions, Retry, SendEventsOptions, SendResult } from '../../lib/send/client.ts';
import { Pki } from '../support/pki.ts';
import { freePort } from '../support/free-port.ts';
import { openLink } from '../support/link.ts';
import { atEnd, eventually, everyOf, temporaryFolder } from '../support/scope.ts';
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
    const client = createClient({ url: gateway.url, concurrency: 8, pipelining: 1, timeoutMs: 1_000 });
    gateway.next(...Array<NextAnswer>(8).fill('silence'));
    const all = events('a', 1_000);
    const sent = all.map((one) => client.send(one));
    assert.equal(client.outstanding, 1_000);
    await eventually('eight are sent', () => gateway.requests === 8);
    // The first answers are missing until the time limit, so nothing else is sent before.
    assert.equal((await Promise.race(sent)).tries, 2);
    assert.equal(gateway.requests, 9);
    for (const [at, result] of (await Promise.all(sent)).entries())
      assert.ok(result.kind === 'accepted' && result.event === all[at], JSON.stringify(result));
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
    await client.close();
    assert.equal(client.outstanding, 0);
    await assert.rejects(client.send(event('late')), /closed/);
    assert.deepEqual(await kindsOf(last), ['accepted']);
    assert.equal(client.close(), client.close());
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

  it('sends the events that its journal holds, and marks events as settled', async () => {
    const journal = join(temporaryFolder(), 'journal');
    gateway.next('unavailable');
    const first = createClient({ url: gateway.url, journal, tries: 1 });
    assert.equal((await first.send(event('kept'))).kind, 'refused');
    assert.equal((await first.send(event('sent'))).kind, 'accepted');
    await first.close();
    const resumed: SendResult<Buffer>[] = [];
    const second = createClient({ url: gateway.url, journal, onResumed: (result) => resumed.push(result) });
    await eventually('the event is sent', () => resumed.length > 0);
    await Promise.all(events('new', 20).map((one) => second.send(one)));
    await second.close();
    assert.deepEqual(
      resumed.map(({ kind, event: body }) => `${kind} ${String(body)}`).join(),
      `accepted ${JSON.stringify(event('kept'))}`,
    );
    assert.deepEqual(await kinds(sendEvents([], { url: gateway.url, journal })), []);
  });
});

it('a client frees its journal even if the gateway refuses the events that it holds', async () => {
  const options = { url: gateway.url, journal: join(temporaryFolder(), 'journal') };
  gateway.next(...Array<NextAnswer>(40).fill(401));
  const expired = createClient(options);
  await Promise.all(events('held', 20).map((one) => expired.send(one)));
  await expired.close();
  const stillExpired = createClient(options);
  await eventually('the gateway refuses the events again', () => gateway.requests === 40);
  await assert.rejects(stillExpired.close(), { name: 'SendingStopped' });
  const renewed = createClient(options);
  await eventually('all events are accepted', () => gateway.events.length === 20);
  await renewed.close();
});

describe('a client stops with what to do', () => {
  /** Asserts that one event, and one of many, is tried so often. */
  async function assertStops(options: SendEventsOptions, message: RegExp, tries = 1): Promise<void> {
    const retries: Retry[] = [];
    const all = { ...identity, onRetry: (retry: Retry) => retries.push(retry), ...options };
    const client = createClient(all);
    await assert.rejects(client.send(event('one')), { name: 'SendingStopped', message });
    assert.equal(retries.length, tries - 1);
    await client.close();
    await assert.rejects(kinds(sendEvents(events('many', 100), all)), { name: 'SendingStopped', message });
    assert.equal(retries.length > 0, tries > 1);
  }
  const secured = (more: TlsOptions = {}, host?: string): Promise<number> => {
    const { certificate: cert, key } = pki.server;
    return listening(
      createTlsServer({ cert, key, ...more }).on('tlsClientError', () => undefined),
      host,
    );
  };

  it('if nothing listens at its port, unless the number of tries is given', async () => {
    const url = `https://127.0.0.1:${await freePort()}`;
    await assertStops({ url }, /no gateway at this address: .*ECONNREFUSED.*check the URL/);
    const result = await createClient({ ...identity, url, tries: 4 }).send(event('one'));
    assert.ok(result.kind === 'refused' && result.code === 'NO_ANSWER' && result.tries === 4);
  });

  it('after three tries if the server never completes a handshake, unless the number of tries is given', async () => {
    for (const serve of [(socket: Socket) => socket.destroy(), (socket: Socket) => socket.end(), () => undefined]) {
      const url = `https://127.0.0.1:${await listening(createTcpServer(serve))}`;
      await assertStops({ url, timeoutMs: 100 }, /^no TLS handshake with the server: .*; check the port/, 3);
      const result = await createClient({ ...identity, url, timeoutMs: 100, tries: 4 }).send(event('one'));
      assert.ok(result.kind === 'refused' && result.tries === 4);
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
    await assertStops({ url: `https://127.0.0.1:${port}` }, /not use TLS: [^:/]* \(ERR_SSL_\w+\); check the port/);
    await assertStops({ url: `http://127.0.0.1:${port}` }, /URL must begin with https: this is a TLS port/);
  });

  it('if the server is not trusted, with a remedy for each reason', async () => {
    const url = `https://127.0.0.1:${await secured()}`;
    const { certificate: ca } = (await Pki.create()).authority;
    await assertStops({ url, ca }, /not trusted: .*"ca" must contain/);
    const elsewhere = { url: `https://127.0.0.2:${await secured({}, '127.0.0.2')}` };
    await assertStops(elsewhere, /not trusted: .*127\.0\.0\.2.*the URL must name a host/);
    const old = { server: true, notBefore: new Date(Date.now() - 9e6), notAfter: new Date(Date.now() - 8e6) };
    const { certificate, key } = await pki.authority.issue({ commonName: 'localhost', ...old });
    const expired = { url: `https://127.0.0.1:${await secured({ cert: certificate, key })}` };
    await assertStops(expired, /not trusted: .*expired.*certificate must be replaced/);
  });

  it('if the server refuses the handshake', async () => {
    const url = `https://127.0.0.1:${await secured({ ALPNProtocols: ['h2'] })}`;
    await assertStops({ url }, /refused the TLS handshake: .*check "cert" and "key"/);
  });

  it('if the first ten answers are all 401 or 403', async () => {
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
    gateway.next(401, 403, 'PRODUCER_DISABLED', 'TYPE_NOT_ALLOWED');
    const refused = sendEvents([...events('a', 4), event('')], { ...options, concurrency: 1 });
    assert.deepEqual(await kinds(refused), Array(5).fill('refused'));
    const nowhere = { ...options, url: `${gateway.url}/nowhere` };
    assert.deepEqual(await kinds(sendEvents([], nowhere)), Array(3).fill('refused'));
    assert.deepEqual(await kinds(sendEvents([], options)), Array(3).fill('accepted'));
    assert.deepEqual(await kinds(sendEvents([], options)), []);
  });

  it('sends nothing that is not in its journal', async () => {
    const results = sendEvents([event('a')], { ...options, journal: join(folder, 'absent', 'journal') });
    await assert.rejects(kinds(results), { code: 'ENOENT' });
    const onJournaled = (): void => assert.fail('not now');
    await assert.rejects(kinds(sendEvents([event('a')], { ...options, onJournaled })), /not now/);
    assert.equal(gateway.requests, 0);
    assert.deepEqual(await kinds(sendEvents([], options)), ['accepted']);
  });
});

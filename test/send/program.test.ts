// ingest-send against a server of the test's own, which answers as the gateway's contract allows; the way through the
// real gateway is in test/end-to-end/landing.test.ts.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync, existsSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, beforeEach, describe, it } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { CertificateAuthority } from '../../lib/identity/certificate-authority.ts';
import { Program } from '../support/program.ts';
import { eventually } from '../support/scope.ts';

const folder = mkdtempSync(join(tmpdir(), 'ingest-send-'));
const path = (name: string): string => join(folder, name);

/** A request that arrived. */
interface Arrival {
  readonly body: string;
  readonly atMs: number;
  readonly socket: TLSSocket;
  readonly authorization: string | undefined;
}

let server: Server;
let url: string;
let arrivals: Arrival[] = [];
/** Answers one request; `tries` counts those of the same body. */
let answer: (response: ServerResponse, body: string, tries: number) => void;

const accepted = (response: ServerResponse, more: object = {}): void =>
  void response
    .writeHead(202, { 'Content-Type': 'application/json' })
    .end(JSON.stringify({ id: 'x', status: 'accepted', ...more }));
const problem = (
  response: ServerResponse,
  status: number,
  code: string,
  retryable: boolean,
  headers: Record<string, string> = {},
): void =>
  void response
    .writeHead(status, { 'Content-Type': 'application/problem+json', ...headers })
    .end(JSON.stringify({ status, code, retryable }));

before(async () => {
  const authority = await CertificateAuthority.create('send test authority');
  const gateway = await authority.issue({
    commonName: 'localhost',
    dnsNames: ['localhost'],
    addresses: ['127.0.0.1'],
    server: true,
  });
  const producer = await authority.issue({ commonName: 'producer', uris: ['urn:test:producer'] });
  writeFileSync(path('ca.pem'), authority.certificate);
  writeFileSync(path('producer.pem'), producer.certificate);
  writeFileSync(path('producer-key.pem'), producer.key);
  const tls = {
    cert: gateway.certificate,
    key: gateway.key,
    ca: authority.certificate,
    requestCert: true,
    rejectUnauthorized: true,
  };
  server = createServer(tls, (request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = Buffer.concat(chunks).toString();
      arrivals.push({
        body,
        atMs: performance.now(),
        socket: request.socket as TLSSocket,
        authorization: request.headers.authorization,
      });
      answer(response, body, arrivals.filter((arrival) => arrival.body === body).length);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
beforeEach(() => {
  arrivals = [];
  answer = (response) => accepted(response);
});
after(() => {
  server.close();
  server.closeAllConnections();
  rmSync(folder, { recursive: true });
});

function send(input: string, ...args: string[]): Program {
  const tls = ['--cert', path('producer.pem'), '--key', path('producer-key.pem'), '--ca', path('ca.pem')];
  return new Program('ingest-send', { args: ['--url', url, ...tls, ...args], cwd: folder, input });
}

const event = (id: string): string => `{"id":"${id}","type":"t"}`;

describe('ingest-send', () => {
  it('sends each line byte for byte over connections that it keeps, and tells what was accepted', async () => {
    const input = Array.from({ length: 40 }, (_, at) => ` ${event(String(at))}  `);
    answer = (response, _body, _tries) => accepted(response, arrivals.length % 4 === 0 ? { duplicate: true } : {});
    const program = send(input.join('\n'), '--concurrency', '4');
    assert.equal(await program.ended, 0, program.output);
    assert.deepEqual(arrivals.map(({ body }) => body).sort(), input.sort());
    assert.ok(new Set(arrivals.map(({ socket }) => socket)).size <= 4, 'at most four connections');
    assert.match(program.output, /^accepted 40, of these duplicate 10; tried again 0 times$/m);
    assert.equal(existsSync(path('ingest-send.refused')), false);
  });

  it('tries again only what is retryable, after the pause that the gateway asks for', async () => {
    answer = (response, body, tries) => {
      if (body.includes('busy') && tries === 1)
        problem(response, 503, 'QUEUE_OVERLOADED', true, { 'Retry-After': '1' });
      else if (body.includes('shed') && tries === 1)
        accepted(response, { status: 'shed', code: 'INGEST_SHED', retryable: true });
      else if (body.includes('lost') && tries === 1) response.destroy();
      else if (body.includes('bad')) problem(response, 400, 'INVALID_EVENT', false);
      else if (body.includes('proxy')) response.writeHead(503, { 'Retry-After': '0' }).end('<html>');
      else accepted(response);
    };
    const program = send(
      ['busy', 'shed', 'lost', 'bad', 'proxy', 'good'].map(event).join('\n'),
      '--refused',
      'some.refused',
    );
    assert.equal(await program.ended, 1, program.output);
    const tries = (id: string): Arrival[] => arrivals.filter(({ body }) => body.includes(id));
    assert.deepEqual(
      ['busy', 'shed', 'lost', 'bad', 'proxy', 'good'].map((id) => tries(id).length),
      [2, 2, 2, 1, 1, 1],
    );
    const [first, second] = tries('busy');
    assert.ok((second?.atMs ?? 0) - (first?.atMs ?? 0) >= 990, 'Retry-After: 1');
    assert.match(
      program.output,
      /^accepted 4, of these duplicate 0; tried again 3 times\nrefused 1 HTTP_503\nrefused 1 INVALID_EVENT$/m,
    );
    const refused = readFileSync(path('some.refused'), 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    assert.deepEqual(
      refused.sort((a, b) => Number(a['line']) - Number(b['line'])),
      [
        {
          line: 4,
          code: 'INVALID_EVENT',
          status: 400,
          answer: { status: 400, code: 'INVALID_EVENT', retryable: false },
          body: event('bad'),
        },
        { line: 5, code: 'HTTP_503', status: 503, answer: '<html>', body: event('proxy') },
      ],
    );
  });

  it('gives up after its tries, with growing pauses between them', async () => {
    answer = (response) => problem(response, 503, 'QUEUE_UNAVAILABLE', true);
    const program = send(event('never'), '--tries', '4');
    assert.equal(await program.ended, 1);
    assert.equal(arrivals.length, 4);
    const pauses = arrivals.slice(1).map(({ atMs }, at) => atMs - (arrivals[at]?.atMs ?? 0));
    for (const [at, minMs] of [50, 100, 200].entries()) assert.ok((pauses[at] ?? 0) >= minMs - 5, pauses.join(' '));
    assert.match(program.output, /^refused 1 QUEUE_UNAVAILABLE$/m);
  });

  it('sends its token', async () => {
    writeFileSync(path('token'), 'abc.def.ghi\n');
    const program = send(event('one'), '--token', path('token'));
    assert.equal(await program.ended, 0, program.output);
    assert.equal(arrivals[0]?.authorization, 'Bearer abc.def.ghi');
  });

  it('ends on a signal while it waits, says what is left, and sends the rest in the next run', async () => {
    answer = (response, body) =>
      body.includes('slow')
        ? problem(response, 503, 'QUEUE_UNAVAILABLE', true, { 'Retry-After': '600' })
        : accepted(response);
    const program = send([event('fine'), event('slow')].join('\n'));
    await eventually('the slow one was asked', () => arrivals.some(({ body }) => body.includes('slow')), 10_000);
    program.signal('SIGINT');
    assert.equal(await program.ended, 130, program.output);
    assert.match(program.output, /interrupted before an answer: 1; run again/);
    answer = (response, body) => accepted(response, body.includes('fine') ? { duplicate: true } : {});
    const again = send([event('fine'), event('slow')].join('\n'));
    assert.equal(await again.ended, 0, again.output);
    assert.match(again.output, /accepted 2, of these duplicate 1/);
  });

  it('does not reach a server that it does not trust, and says so', async () => {
    const other = await CertificateAuthority.create('another authority');
    writeFileSync(path('other-ca.pem'), other.certificate);
    const program = send(event('one'), '--ca', path('other-ca.pem'), '--tries', '1');
    assert.equal(await program.ended, 1);
    assert.equal(arrivals.length, 0);
    assert.match(readFileSync(path('ingest-send.refused'), 'utf8'), /certificate/);
  });

  it('refuses wrong options with 2 and a word about each', async () => {
    const programs = [
      send('', '--url', 'http://127.0.0.1'),
      send('', '--concurrency', '0'),
      send('', '--fast'),
      send('', '--cert', 'nowhere.pem'),
      send('', '--cert', path('ca.pem')),
      send('', 'no-such-file.ndjson'),
      send('', 'a', 'b'),
    ];
    assert.deepEqual(
      await Promise.all(programs.map(({ ended }) => ended)),
      programs.map(() => 2),
      programs.map((p) => p.output).join(''),
    );
    const help = send('', '--help');
    assert.equal(await help.ended, 0);
    assert.match(help.output, /Retry-After/);
  });
});

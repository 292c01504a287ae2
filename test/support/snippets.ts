// Runs the programs in openapi/PRODUCERS.md against a gateway that refuses their first attempts.
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { cpSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { connect, createServer, type AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import type { TLSSocket } from 'node:tls';
import { setTimeout as delay } from 'node:timers/promises';
import { once } from 'node:events';
import { startFakeGateway, type FakeGateway } from '../../lib/send/fake-gateway.ts';
import { freePort } from './free-port.ts';
import { openLink } from './link.ts';
import { Pki } from './pki.ts';
import { atEnd, temporaryFolder } from './scope.ts';

export const PAGE = readFileSync(new URL('../../openapi/PRODUCERS.md', import.meta.url), 'utf8');
const LIBRARY = new URL('../../lib/send/client.ts', import.meta.url).href;
export const ADDRESS = 'https://gateway:8443';

export const ensureCommand = (command: string, debianPackage: string): string =>
  execFileSync(new URL('../../bin/ensure-command', import.meta.url).pathname, [command, debianPackage], {
    encoding: 'utf8',
  }).trim();

/** Returns a Python that has the package `requests`: the first on PATH, or Debian's. */
export function python(): string {
  for (const command of ['python3', '/usr/bin/python3']) {
    try {
      execFileSync(command, ['-c', 'import requests'], { stdio: 'ignore' });
      return command;
    } catch {
      continue;
    }
  }
  try {
    ensureCommand('python3-requests', 'python3-requests');
  } catch {
    // ensure-command fails after the installation, because the package contains no command of this name.
  }
  return '/usr/bin/python3';
}

/** Returns the text of a snippet. `words` is a language, or a language and a name. */
export function snippet(words: string): string {
  const found = [...PAGE.matchAll(new RegExp(`\n\`\`\`${words}\n([^]*?)\`\`\``, 'g'))];
  assert.equal(found.length, 1, `${found.length} snippets of ${words}`);
  return found[0]?.[1] ?? '';
}

export function folderWithClient(): string {
  const folder = temporaryFolder('ingest-snippets-');
  const client = join(folder, 'node_modules/ingest-client');
  mkdirSync(client, { recursive: true });
  writeFileSync(join(client, 'package.json'), '{"type":"module","exports":"./index.js"}\n');
  writeFileSync(join(client, 'index.js'), `export * from ${JSON.stringify(LIBRARY)};\n`);
  return folder;
}

const PLAIN = 'HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n';

/**
 * Starts a balancer that first has no backend: it closes five connections after the ClientHello, the last one with an
 * answer in plain HTTP, and then does not listen for two seconds. A program repeats the fifth try within these.
 */
async function startBalancer(target: number) {
  const balancer = { port: await freePort(), connections: 0 };
  const ends = ['FIN', 'FIN', 'RST', 'RST', 'plain HTTP'];
  const server = createServer((client) => {
    balancer.connections += 1;
    client.on('error', () => undefined);
    const end = ends.shift();
    if (end === undefined) {
      const backend = connect(target, '127.0.0.1').on('error', () => client.destroy());
      client.pipe(backend).pipe(client);
      client.once('close', () => backend.destroy());
      return;
    }
    client.once('data', () => {
      if (end === 'RST') client.resetAndDestroy();
      else client.end(end === 'FIN' ? '' : PLAIN);
      if (ends.length > 0) return;
      server.close();
      void delay(2_000).then(() => server.listen(balancer.port, '127.0.0.1'));
    });
  });
  server.listen(balancer.port, '127.0.0.1');
  await once(server, 'listening');
  atEnd(() => void server.close());
  return balancer;
}

export class SnippetRunner {
  readonly gateway: FakeGateway;
  readonly folder: string;
  readonly #pki: Pki;

  private constructor(gateway: FakeGateway, folder: string, pki: Pki) {
    this.gateway = gateway;
    this.folder = folder;
    this.#pki = pki;
  }

  static async start(): Promise<SnippetRunner> {
    const pki = await Pki.create();
    const { certificate, key: serverKey } = pki.server;
    const ca = pki.authority.certificate;
    const gateway = await startFakeGateway({ tls: { cert: certificate, key: serverKey, ca }, retryAfterS: 1 });
    atEnd(() => gateway.close());
    const folder = folderWithClient();
    const { cert, key } = await pki.producer('shop');
    for (const [name, text] of Object.entries({ 'ca.pem': ca, 'producer.pem': cert, 'producer-key.pem': key }))
      writeFileSync(join(folder, name), text);
    return new SnippetRunner(gateway, folder, pki);
  }

  /**
   * Runs a snippet three times: until its event is accepted, with an event that is refused permanently, and with an
   * authority that did not sign the gateway's certificate.
   */
  async sends(language: string, file: string, command: string, args: readonly string[]): Promise<void> {
    const text = snippet(language);
    writeFileSync(join(this.folder, file), text.replaceAll(ADDRESS, this.gateway.url));
    const id = /shop-order-[a-z]+/.exec(text)?.[0] ?? '';
    const run = (cwd = this.folder) => {
      const env = { ...process.env, REQUESTS_CA_BUNDLE: '/nowhere.pem' };
      return promisify(execFile)(command, args, { cwd, env, timeout: 150_000 });
    };
    const before = this.gateway.requests;
    this.gateway.next('unavailable', 'rateLimited', 'shed', 'internal');
    const startMs = performance.now();
    const { stdout } = await run();
    assert.ok(performance.now() - startMs >= 2_000, 'two of the refusals say Retry-After: 1');
    assert.match(stdout, /accepted/);
    assert.equal(this.gateway.requests - before, 5);
    const events = this.gateway.events.filter((event) => event.id === id);
    assert.deepEqual(
      events.map(({ body }) => JSON.parse(body) as unknown),
      [{ id, type: 'order.placed' }],
    );
    this.gateway.giveAway(id);
    await assert.rejects(run(), { code: 1 });
    assert.equal(this.gateway.requests - before, 6);

    const folder = await this.distrusting(file, text);
    await assert.rejects(run(folder.path), { code: 1 });
    // ingest-client waits for a gateway that is not trusted, for as long as for one that is down.
    assert.ok(folder.link.taken <= (language === 'js' ? 10 : 4), `${folder.link.taken} connections`);
    await this.outlives(file, text, command, args);
  }

  /** Runs a program behind a balancer without a backend, and then while its certificate is renewed. */
  async outlives(file: string, text: string, command: string, args: readonly string[]): Promise<void> {
    const run = async (port: number): Promise<void> => {
      writeFileSync(join(this.folder, file), text.replaceAll(ADDRESS, `https://127.0.0.1:${port}`));
      const { stdout } = await promisify(execFile)(command, args, { cwd: this.folder, timeout: 150_000 });
      assert.match(stdout, /accepted/);
    };
    this.gateway.reset();
    const balancer = await startBalancer(Number(new URL(this.gateway.url).port));
    await run(balancer.port);
    assert.equal(balancer.connections, 6);
    assert.equal(this.gateway.events.length, 1);
    const renewing = await this.#startRenewing();
    await run(renewing.port);
    assert.deepEqual(renewing.serials, renewing.expected);
  }

  /** Starts a server that renews the producer's files at the first request, the key later, and accepts the next one. */
  async #startRenewing() {
    const next = await this.#pki.producer('shop');
    const serialOf = (pem: string | Buffer): string => new X509Certificate(pem).serialNumber;
    const renewing = {
      port: 0,
      serials: [] as string[],
      expected: [serialOf(readFileSync(join(this.folder, 'producer.pem'))), serialOf(next.cert)],
    };
    const { certificate: cert, key } = this.#pki.server;
    const tls = { cert, key, ca: this.#pki.authority.certificate, requestCert: true, rejectUnauthorized: true };
    const answer = (id: string, request: IncomingMessage, response: ServerResponse): void => {
      const headers = { 'Content-Type': 'application/json', Connection: 'close' };
      renewing.serials.push((request.socket as TLSSocket).getPeerX509Certificate()?.serialNumber ?? '');
      if (renewing.serials.length > 1) {
        response.writeHead(202, headers).end(JSON.stringify({ id, status: 'accepted' }));
        return;
      }
      const write = (name: string, pem: string): void => {
        writeFileSync(join(this.folder, `${name}.new`), pem);
        renameSync(join(this.folder, `${name}.new`), join(this.folder, name));
      };
      write('producer.pem', next.cert);
      void delay(500).then(() => write('producer-key.pem', next.key));
      response.writeHead(503, headers).end('{"code":"QUEUE_UNAVAILABLE","retryable":true}');
    };
    const server = createHttpsServer(tls, (request, response) => {
      void json(request).then((event) => answer((event as { id: string }).id, request, response));
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    atEnd(() => void server.close());
    renewing.port = (server.address() as AddressInfo).port;
    return renewing;
  }

  /** Returns a folder with the program and another authority. The link counts the connections to the gateway. */
  async distrusting(file: string, text: string) {
    const link = await openLink({ host: '127.0.0.1', port: Number(new URL(this.gateway.url).port) });
    atEnd(() => link.close());
    const path = temporaryFolder('ingest-snippets-');
    cpSync(this.folder, path, { recursive: true, verbatimSymlinks: true });
    writeFileSync(join(path, 'ca.pem'), (await Pki.create()).authority.certificate);
    writeFileSync(join(path, file), text.replaceAll(ADDRESS, `https://127.0.0.1:${link.port}`));
    return { path, link };
  }
}

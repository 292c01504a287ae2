// Runs the programs in openapi/PRODUCERS.md against a gateway that refuses their first attempts.
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { startFakeGateway, type FakeGateway } from '../../lib/send/fake-gateway.ts';
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

export class SnippetRunner {
  readonly gateway: FakeGateway;
  readonly folder: string;

  private constructor(gateway: FakeGateway, folder: string) {
    this.gateway = gateway;
    this.folder = folder;
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
    return new SnippetRunner(gateway, folder);
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
    assert.ok(folder.link.taken <= 4, `${folder.link.taken} connections`);
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

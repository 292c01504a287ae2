// Runs the programs in openapi/PRODUCERS.md against a gateway that refuses their first attempts.
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { startFakeGateway, type FakeGateway } from '../../lib/send/fake-gateway.ts';
import { Pki } from './pki.ts';
import { atEnd, temporaryFolder } from './scope.ts';

const PAGE = readFileSync(new URL('../../openapi/PRODUCERS.md', import.meta.url), 'utf8');
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
  readonly #gateway: FakeGateway;
  readonly folder: string;

  private constructor(gateway: FakeGateway, folder: string) {
    this.#gateway = gateway;
    this.folder = folder;
  }

  static async start(): Promise<SnippetRunner> {
    const pki = await Pki.create();
    const { certificate, key: serverKey } = pki.server;
    const ca = pki.authority.certificate;
    const gateway = await startFakeGateway({ tls: { cert: certificate, key: serverKey, ca } });
    atEnd(() => gateway.close());
    const folder = folderWithClient();
    const { cert, key } = await pki.producer('shop');
    for (const [name, text] of Object.entries({ 'ca.pem': ca, 'producer.pem': cert, 'producer-key.pem': key }))
      writeFileSync(join(folder, name), text);
    return new SnippetRunner(gateway, folder);
  }

  /** Runs a snippet twice: first until its event is accepted, then with an event that is refused permanently. */
  async sends(language: string, file: string, command: string, args: readonly string[]): Promise<void> {
    const text = snippet(language).replaceAll(ADDRESS, this.#gateway.url);
    writeFileSync(join(this.folder, file), text);
    const id = /shop-order-[a-z]+/.exec(text)?.[0] ?? '';
    const run = () => promisify(execFile)(command, args, { cwd: this.folder, timeout: 150_000 });
    const before = this.#gateway.requests;
    this.#gateway.next('unavailable', 'rateLimited', 'internal');
    const startMs = performance.now();
    const { stdout } = await run();
    assert.ok(performance.now() - startMs >= 2_000, 'two of the refusals say Retry-After: 1');
    assert.match(stdout, /accepted/);
    assert.equal(this.#gateway.requests - before, 4);
    const events = this.#gateway.events.filter((event) => event.id === id);
    assert.deepEqual(
      events.map(({ body }) => JSON.parse(body) as unknown),
      [{ id, type: 'order.placed' }],
    );
    this.#gateway.giveAway(id);
    await assert.rejects(run(), { code: 1 });
    assert.equal(this.#gateway.requests - before, 5);
  }
}

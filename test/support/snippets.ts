// The programs in the README's section "From other languages", as they stand there, run against a real gateway.
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { TestGateway } from './gateway.ts';
import { Pki } from './pki.ts';
import { TestRedis } from './redis.ts';
import { temporaryFolder } from './scope.ts';

const README = readFileSync(new URL('../../README.md', import.meta.url), 'utf8');
const ADDRESS = 'https://gateway:8443';

/** The path of a command, whose Debian package is installed where it is missing. */
export const ensureCommand = (command: string, debianPackage: string): string =>
  execFileSync(new URL('../../bin/ensure-command', import.meta.url).pathname, [command, debianPackage], {
    encoding: 'utf8',
  }).trim();

/** The one snippet of a language in the section. */
export function snippet(language: string): string {
  const section = /\n## From other languages\n([^]*?)\n## /.exec(README)?.[1] ?? '';
  const found = [...section.matchAll(new RegExp(`\n\`\`\`${language}\n([^]*?)\`\`\``, 'g'))];
  assert.equal(found.length, 1, `${found.length} snippets in ${language}`);
  const text = found[0]?.[1] ?? '';
  assert.ok(text.includes(ADDRESS), 'it names the address that the section says');
  return text;
}

/** A gateway, and a folder with the PEM files that the snippets read. */
export class SnippetRunner {
  readonly #gateway: TestGateway;
  readonly #redis: TestRedis;
  readonly folder: string;

  private constructor(gateway: TestGateway, redis: TestRedis, folder: string) {
    this.#gateway = gateway;
    this.#redis = redis;
    this.folder = folder;
  }

  static async start(): Promise<SnippetRunner> {
    const [redis, pki] = await Promise.all([TestRedis.start(), Pki.create()]);
    const gateway = await TestGateway.start(redis, pki, { INGEST_ENQUEUE_TIMEOUT_MS: '5000' });
    const folder = temporaryFolder('ingest-snippets-');
    const { cert, key } = await pki.producer('shop');
    for (const [name, text] of [
      ['ca.pem', pki.authority.certificate],
      ['producer.pem', cert],
      ['producer-key.pem', key],
    ] as const)
      writeFileSync(join(folder, name), text);
    return new SnippetRunner(gateway, redis, folder);
  }

  /**
   * Writes the snippet to a file, with the gateway's real address, runs it, and holds that the queue has what it sent.
   */
  async sends(language: string, file: string, command: string, args: readonly string[]): Promise<void> {
    const text = snippet(language).replaceAll(ADDRESS, `https://127.0.0.1:${this.#gateway.port}`);
    writeFileSync(join(this.folder, file), text);
    const { stdout } = await promisify(execFile)(command, args, { cwd: this.folder, timeout: 150_000 });
    const id = /order-[a-z]+/.exec(text)?.[0] ?? '';
    assert.match(stdout, new RegExp(`"?id"?'?: ?["']${id}["'].*accepted`), stdout);
    const bodies = (await this.#redis.entries()).map(({ fields }) => JSON.parse(fields['body'] ?? '') as object);
    assert.deepEqual(
      bodies.filter((body) => 'id' in body && body.id === id),
      [{ id, type: 'order.placed' }],
    );
  }
}

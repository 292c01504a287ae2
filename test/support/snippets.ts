// The programs in openapi/PRODUCERS.md, and a gateway and a folder to run them.
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { startFakeGateway, type FakeGateway } from '../../lib/send/fake-gateway.ts';
import { Pki } from './pki.ts';
import { atEnd, temporaryFolder } from './scope.ts';
import { tool } from './tool.ts';

export const PAGE = readFileSync(new URL('../../openapi/PRODUCERS.md', import.meta.url), 'utf8');
const LIBRARY = new URL('../../lib/send/client.ts', import.meta.url).href;
export const ADDRESS = 'https://gateway:8443';

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
    tool('python3-requests', 'python3-requests');
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

/** A program of the page, and the command that runs its file. */
export interface Program {
  readonly text: string;
  readonly file: string;
  readonly command: string;
  readonly args: readonly string[];
}

/** A fake gateway, and a folder with the client and the certificates of one of its producers. */
export class SnippetRunner {
  readonly folder = folderWithClient();
  readonly gateway: FakeGateway;
  readonly pki: Pki;

  private constructor(gateway: FakeGateway, pki: Pki) {
    this.gateway = gateway;
    this.pki = pki;
  }

  static async start(): Promise<SnippetRunner> {
    const pki = await Pki.create();
    const { certificate, key: serverKey } = pki.server;
    const ca = pki.authority.certificate;
    const gateway = await startFakeGateway({ tls: { cert: certificate, key: serverKey, ca }, retryAfterS: 1 });
    atEnd(() => gateway.close());
    const runner = new SnippetRunner(gateway, pki);
    const { cert, key } = await pki.producer('shop');
    for (const [name, text] of Object.entries({ 'ca.pem': ca, 'producer.pem': cert, 'producer-key.pem': key }))
      writeFileSync(join(runner.folder, name), text);
    return runner;
  }

  /** Runs a program that sends to a port, or to the gateway. Resolves to its output, and rejects if it fails. */
  async run({ text, file, command, args }: Program, port?: number, cwd = this.folder): Promise<string> {
    const url = port === undefined ? this.gateway.url : `https://127.0.0.1:${port}`;
    writeFileSync(join(cwd, file), text.replaceAll(ADDRESS, url));
    const env = { ...process.env, REQUESTS_CA_BUNDLE: '/nowhere.pem' };
    const { stdout } = await promisify(execFile)(command, [...args, file], { cwd, env, timeout: 150_000 });
    return stdout;
  }
}

// Compiles a generated client with TypeScript and runs it against a real gateway.
import { execFile } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import ts from 'typescript';
import { PATIENT, TestGateway } from '../support/gateway.ts';
import { Pki } from '../support/pki.ts';
import { TestRedis } from '../support/redis.ts';
import { temporaryFolder } from '../support/scope.ts';

const ROOT = new URL('../../', import.meta.url).pathname;
const MUTUAL_FETCH = new URL('../support/mutual-fetch.ts', import.meta.url).pathname;

const OPTIONS: ts.CompilerOptions = {
  strict: true,
  noEmit: true,
  skipLibCheck: true,
  allowImportingTsExtensions: true,
  target: ts.ScriptTarget.ES2024,
  module: ts.ModuleKind.ESNext,
  moduleResolution: ts.ModuleResolutionKind.Bundler,
  types: ['node'],
  typeRoots: [join(ROOT, 'node_modules/@types')],
};
const host = ts.createCompilerHost(OPTIONS);
const parse = host.getSourceFile.bind(host);
const parsed = new Map<string, ts.SourceFile | undefined>();
host.getSourceFile = (path, ...how) => {
  if (!parsed.has(path)) parsed.set(path, parse(path, ...how));
  return parsed.get(path);
};

export function faultsOf(path: string): string[] {
  const program = ts.createProgram([path], OPTIONS, host);
  return ts
    .getPreEmitDiagnostics(program)
    .map(({ messageText, file }) => `${file?.fileName}: ${ts.flattenDiagnosticMessageText(messageText, '\n')}`);
}

export const HEAD = `
import { mutualFetch } from ${JSON.stringify(MUTUAL_FETCH)};
const say = (value: unknown): void => void process.stdout.write(JSON.stringify(value) + '\\n');
const baseUrl = process.env['GATEWAY'] ?? '';
const fetch = mutualFetch(process.env['PEM'] ?? '');
`;

export const SAID = [
  { id: 'a/b 1', status: 'accepted' },
  ['accepted', 'a/b 1', 2],
  ['INVALID_EVENT', false, '/type'],
  ['EVENT_NOT_FOUND', false],
  'ready',
];

/** Creates a folder inside the repository, so that imports of packages resolve. */
export function clientsFolder(): string {
  const parent = join(ROOT, '.ingest');
  mkdirSync(parent, { recursive: true });
  return temporaryFolder('clients-', parent);
}

export class ClientRunner {
  readonly #gateway: TestGateway;
  readonly #pki: Pki;

  private constructor(gateway: TestGateway, pki: Pki) {
    this.#gateway = gateway;
    this.#pki = pki;
  }

  static async start(): Promise<ClientRunner> {
    const [redis, pki] = await Promise.all([TestRedis.start(), Pki.create()]);
    const gateway = await TestGateway.start(redis, pki, PATIENT);
    const { cert, key } = await pki.producer('shop');
    pki.write('producer.pem', cert);
    pki.write('producer-key.pem', key);
    return new ClientRunner(gateway, pki);
  }

  async run(path: string): Promise<unknown[]> {
    const { stdout } = await promisify(execFile)(join(ROOT, 'bin/node'), ['--import', 'tsx', path], {
      cwd: ROOT,
      env: { ...process.env, GATEWAY: `https://127.0.0.1:${this.#gateway.port}`, PEM: this.#pki.folder },
      timeout: 60_000,
    });
    return stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as unknown);
  }
}

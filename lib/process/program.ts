// Flags, exit codes and versions, which are the same for all programs of the project.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { messageOf } from './message-of.ts';

/**
 * Exit codes (openapi/rules.md, 7). `replicas`: the maximum number of consumers is already running. `warehouse`:
 * ingest-admin or `--check=connect` cannot use the warehouse. `attention`: `ingest-admin status` reached both sides,
 * but events do not land, or no replica acknowledges them.
 */
export const EXIT = Object.freeze({
  clean: 0,
  fatal: 1,
  configuration: 2,
  bind: 3,
  queue: 4,
  replicas: 5,
  warehouse: 5,
  attention: 6,
});

/** Thrown if startup fails. `message` has one line per problem, with the key and what to do. */
export class StartFailure extends Error {
  readonly exitCode: number;

  constructor(exitCode: number, message: string) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** Waits for all parts. Rejects with one StartFailure that lists all failures. */
export async function allStarted<T extends readonly unknown[]>(
  parts: readonly [...T],
): Promise<{ -readonly [K in keyof T]: Awaited<T[K]> }> {
  const settled = await Promise.allSettled(parts);
  const reasons = settled.flatMap((one) => (one.status === 'rejected' ? [one.reason as unknown] : []));
  for (const reason of reasons) if (!(reason instanceof StartFailure)) throw reason;
  if (reasons.length > 0) throw new StartFailure(EXIT.configuration, reasons.map(messageOf).join('\n'));
  return Promise.all(parts);
}

export type Mode = 'run' | 'check' | 'connect' | 'help' | 'help=all' | 'version';

const MODES: ReadonlyMap<string, Mode> = new Map([
  ['--check', 'check'],
  ['--check=connect', 'connect'],
  ['--help', 'help'],
  ['--help=all', 'help=all'],
  ['-h', 'help'],
  ['--version', 'version'],
  ['-V', 'version'],
]);

export function modeOf(args: readonly string[]): Mode {
  const unknown = args.find((arg) => !MODES.has(arg));
  if (unknown !== undefined) throw new StartFailure(EXIT.configuration, `unknown argument ${unknown}; see --help`);
  const modes = args.map((arg) => MODES.get(arg));
  return modes.find((mode) => mode?.startsWith('help')) ?? modes[0] ?? 'run';
}

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

/** Packages contain the version of their build and the revision of their source. */
interface Manifest {
  readonly version: string;
  readonly revision?: string;
}

/**
 * Returns the version in package.json if the commit of this checkout has the tag `v<version>`, and otherwise
 * `<version>+git<date>.<revision>`, which dpkg and rpm sort after the release and by the date of the commit.
 */
function checkoutOf(version: string): Required<Manifest> {
  // Naming the repository excludes another one around this folder.
  const repository = [`--git-dir=${ROOT}.git`, '-c', 'safe.directory=*'];
  const show = ['log', '-1', '--abbrev=12', '--decorate-refs=refs/tags/', '--format=%ct %h %D'];
  const { status, stdout } = spawnSync('git', [...repository, ...show], { encoding: 'utf8' });
  if (status !== 0) return { version: `${version}+unknown`, revision: 'unknown' };
  const [seconds, revision = '', ...tags] = stdout.trim().split(/,? (?:tag: )?/);
  const date = new Date(Number(seconds) * 1_000).toISOString().slice(0, 10).replaceAll('-', '');
  return { version: tags.includes(`v${version}`) ? version : `${version}+git${date}.${revision}`, revision };
}

const { version, revision } = JSON.parse(readFileSync(`${ROOT}package.json`, 'utf8')) as Manifest;
const build = revision === undefined ? checkoutOf(version) : { version, revision };

export const BUILD = { ...build, node: process.version };

export const versionLine = (name: string): string => `${name} ${BUILD.version} (${BUILD.revision})\n`;

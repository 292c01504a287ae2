// The consumer of the previous version on today's ports, wire and seams. Any consumer may be of either version.
// Gateways, operator and warehouse are today's: test/package/versions.long.ts runs whole programs of both versions.
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { temporaryFolder } from '../support/scope.ts';
import type { ConsumerVersion } from './programs.ts';

const ROOT = new URL('../..', import.meta.url).pathname;
/** Today's in both versions, because errors and replies cross the seams and are recognized by their class. */
const SHARED = ['lib/ingest', 'lib/process', 'lib/redis/wire'];

const IDENTITY = 'lib/redis/stream/identity.ts';
const formatOf = (text: string): string | undefined => /FORMAT_VERSION = '(\d+)'/.exec(text)?.[1];

/**
 * The commit before this change: CI_BASE, or the one in .ci/base. `why` reports why its consumers cannot run beside
 * today's.
 */
export function commitBefore(): { readonly commit: string } | { readonly why: string } {
  const file = join(ROOT, '.ci/base');
  const commit = process.env['CI_BASE'] ?? (existsSync(file) ? readFileSync(file, 'utf8').trim() : 'none');
  const { status, stdout } = spawnSync('git', ['-C', ROOT, 'show', `${commit}:${IDENTITY}`], { encoding: 'utf8' });
  if (status !== 0) return { why: 'this clone does not have the commit before' };
  const [before, now] = [formatOf(stdout), formatOf(readFileSync(join(ROOT, IDENTITY), 'utf8'))];
  return before === now ? { commit } : { why: `the commit before has queue format ${before}, and this one ${now}` };
}

export async function consumerOf(commit: string): Promise<ConsumerVersion> {
  const folder = temporaryFolder('ingest-before-');
  const files = execFileSync('git', ['-C', ROOT, 'archive', commit, 'lib', 'package.json'], { maxBuffer: 1 << 28 });
  execFileSync('tar', ['-x', '-C', folder], { input: files });
  for (const shared of SHARED) rmSync(join(folder, shared), { recursive: true });
  for (const shared of [...SHARED, 'node_modules']) symlinkSync(join(ROOT, shared), join(folder, shared));
  const load = (path: string): Promise<unknown> => import(pathToFileURL(join(folder, path)).href);
  const modules = await Promise.all(
    ['redis/read/stream-reader', 'consumer/consumer', 'consumer/metrics', 'consumer/quarantine'].map((path) =>
      load(`lib/${path}.ts`),
    ),
  );
  return Object.assign({}, ...(modules as object[])) as ConsumerVersion;
}

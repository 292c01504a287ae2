// Copies the product with one careless change of test/careless/builds, for tests of the campaign and of the simulation.
import { execFileSync } from 'node:child_process';
import { cpSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { temporaryFolder } from '../support/scope.ts';

export const PRODUCT = join(import.meta.dirname, '../..');

/** Returns the folder of the copy. The change is the name of a patch, with spaces in place of the dashes. */
export function brokenBuild(change: string): string {
  const folder = temporaryFolder('ingest-broken-');
  for (const part of ['bin', 'lib', 'deploy', 'package.json'])
    cpSync(join(PRODUCT, part), join(folder, part), { recursive: true });
  symlinkSync(join(PRODUCT, 'node_modules'), join(folder, 'node_modules'));
  const patch = join(PRODUCT, 'test/careless/builds', `${change.replaceAll(' ', '-')}.patch`);
  // In a repository around the folder, git would skip files that it does not know.
  const env = { ...process.env, GIT_CEILING_DIRECTORIES: dirname(folder) };
  execFileSync('git', ['apply', '--recount', '-C1', patch], { cwd: folder, env });
  return folder;
}

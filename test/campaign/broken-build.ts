// A copy of the product with one careless change, made for a test and gone with it: the product itself has no switch
// for it.
import { cpSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from '../support/scope.ts';
import { PRODUCT } from './campaign.ts';

export interface Change {
  /** The file, from the repository's folder. */
  readonly file: string;
  /** What stands there, exactly once. */
  readonly from: string;
  readonly to: string;
}

/** The folder of the copy. Throws when the place is not there: then the change has to follow the code. */
export function brokenBuild({ file, from, to }: Change): string {
  const folder = temporaryFolder('ingest-broken-');
  for (const part of ['bin', 'lib', 'package.json'])
    cpSync(join(PRODUCT, part), join(folder, part), { recursive: true });
  symlinkSync(join(PRODUCT, 'node_modules'), join(folder, 'node_modules'));
  const path = join(folder, file);
  const parts = readFileSync(path, 'utf8').split(from);
  if (parts.length !== 2) throw new Error(`${file}: ${JSON.stringify(from)} stands there ${parts.length - 1} times`);
  writeFileSync(path, parts.join(to));
  return folder;
}

// Copies the product with one wrong change, for tests of the campaign itself.
import { cpSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from '../support/scope.ts';
import { PRODUCT } from './campaign.ts';

export interface Change {
  readonly file: string;
  readonly from: string;
  readonly to: string;
}

/**
 * Returns the folder of the copy. Throws if the text does not occur exactly once, because then the change no longer
 * fits the code.
 */
export function brokenBuild({ file, from, to }: Change): string {
  const folder = temporaryFolder('ingest-broken-');
  for (const part of ['bin', 'lib', 'deploy', 'package.json'])
    cpSync(join(PRODUCT, part), join(folder, part), { recursive: true });
  symlinkSync(join(PRODUCT, 'node_modules'), join(folder, 'node_modules'));
  const path = join(folder, file);
  const parts = readFileSync(path, 'utf8').split(from);
  if (parts.length !== 2) throw new Error(`${file}: ${JSON.stringify(from)} stands there ${parts.length - 1} times`);
  writeFileSync(path, parts.join(to));
  return folder;
}

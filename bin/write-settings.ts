// `make settings` writes the lists of settings into deploy/configure.md, between two marker lines. If the argument is
// the name of a program, the script prints that program's environment file instead.
import { readFileSync, writeFileSync } from 'node:fs';
import { PROGRAMS } from '../lib/process/setting.ts';
import { environmentFile, settingsLists } from '../lib/process/settings-text.ts';
import { print } from './output.ts';

const program = PROGRAMS.find((name) => name === process.argv[2]);
if (program === undefined) {
  const page = new URL('../deploy/configure.md', import.meta.url);
  const text = readFileSync(page, 'utf8');
  const written = text.replace(/(?<=<!-- settings -->\n)[^]*?(?=\n<!-- \/settings -->)/, () => settingsLists());
  if (!written.includes(settingsLists()))
    throw new Error('deploy/configure.md has no <!-- settings --> … <!-- /settings -->');
  writeFileSync(page, written);
} else {
  print(environmentFile(program));
}

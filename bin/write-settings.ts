// `make settings`: writes the table of settings into deploy/README.md, between the two lines that mark its place.
import { readFileSync, writeFileSync } from 'node:fs';
import { settingsTable } from '../lib/process/settings-text.ts';

const PAGE = new URL('../deploy/README.md', import.meta.url);
const text = readFileSync(PAGE, 'utf8');
const written = text.replace(/(?<=<!-- settings -->\n)[^]*?(?=\n<!-- \/settings -->)/, () => settingsTable());
if (!written.includes(settingsTable()))
  throw new Error('deploy/README.md has no <!-- settings --> … <!-- /settings -->');
writeFileSync(PAGE, written);

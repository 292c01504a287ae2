// `make settings`: writes the table of settings into the README, between the two lines that mark its place.
import { readFileSync, writeFileSync } from 'node:fs';
import { settingsTable } from '../lib/process/settings-text.ts';

const README = new URL('../README.md', import.meta.url);
const text = readFileSync(README, 'utf8');
const written = text.replace(/(?<=<!-- settings -->\n)[^]*?(?=\n<!-- \/settings -->)/, () => settingsTable());
if (!written.includes(settingsTable())) throw new Error('README.md has no <!-- settings --> … <!-- /settings -->');
writeFileSync(README, written);

// The settings as text, for --help and the log. The words are those of the lists in deploy/configure.md.
import { readFileSync } from 'node:fs';
import type { Environment } from './read-settings.ts';
import { maskedValue } from './uri.ts';
import type { Program } from './setting-kinds.ts';
import { formsOf, settingsOf } from './settings.ts';

const PAGE = new URL('../../deploy/configure.md', import.meta.url);

/** Reads the page's items. `initially` is the default, or empty; `text` is the item without Markdown. */
export function settingTexts(program: Program) {
  const page = readFileSync(PAGE, 'utf8').replaceAll('`', '');
  return settingsOf(program).map(([key]) => {
    const [, facts = '', meaning = ''] =
      new RegExp(`^\\* \\*\\*${key}\\*\\* \\(([^]*?)\\)\\\\\\n([^]*?)(?=\\n(?:\\n|\\*))`, 'm').exec(page) ?? [];
    const initially = /^default ([^;]*)/.exec(facts)?.[1] ?? '';
    return { key, initially, text: `${key} (${facts})\n${meaning}` };
  });
}

export function settingsHelp(program: Program): string {
  const lines = settingTexts(program).map(({ text }) => `  ${text.replaceAll('\n', '\n    ')}`);
  const source = 'from the environment (a key ending in _URI also as _URI_FILE, the path of a file that holds it)';
  return `Settings, ${source}:\n${lines.join('\n')}\n`;
}

/** Returns the text for --help. `exits` describes the exit codes that only this daemon uses. */
export function daemonHelp(program: Program, summary: string, exits: string): string {
  const name = `ingest-${program}`;
  return `${name}: ${summary}

  ${name}                  start, with the configuration in the environment
  ${name} --check          check the configuration and its files; exit 0 or 2
  ${name} --check=connect  also connect to the queue (exit 4) and the warehouse (exit 5), and report what it finds
  ${name} --version        print the version
  ${name} --help           print this

${settingsHelp(program)}
Exit codes: 0 clean stop, 1 bug, 2 configuration, 3 address cannot be bound, ${exits}.
`;
}

/** Returns the settings of this program that are set in the environment, with secrets masked. */
export function shownSettings(environment: Environment, program: Program): Readonly<Record<string, string>> {
  const names = settingsOf(program).flatMap(([key]) => formsOf(key));
  return Object.fromEntries(
    names.flatMap((name) => (environment[name] ? [[name, maskedValue(name, environment[name])]] : [])),
  );
}

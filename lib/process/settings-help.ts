// The settings as text, for --help and the log. The words are those of the lists in deploy/configure.md.
import { readFileSync } from 'node:fs';
import type { Environment } from './read-settings.ts';
import { maskedValue } from './uri.ts';
import type { Program } from './setting-kinds.ts';
import { formsOf, settingsOf, type Key } from './settings.ts';

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

const SOURCE = 'from the environment (a key ending in _URI also as _URI_FILE, the path of a file that holds it)';

export function settingsHelp(program: Program): string {
  const lines = settingTexts(program).map(({ text }) => `  ${text.replaceAll('\n', '\n    ')}`);
  return `Settings, ${SOURCE}:\n${lines.join('\n')}\n`;
}

/** The settings that matter first, for --help. The words of --help=all are those of deploy/configure.md. */
const FIRST: Readonly<Partial<Record<Key, string>>> = {
  INGEST_QUEUE_URI: 'the queue: redis://user:password@host:6379, or Sentinel or Cluster',
  INGEST_WAREHOUSE_URI: 'the warehouse: postgres://user:password@host/database or sqlite:<path>',
  INGEST_GATEWAY_ADDR: 'the address for producers, over TLS (127.0.0.1:8443)',
  INGEST_TLS_CERT: 'PEM file: the server certificate; unset on loopback: development certificates',
  INGEST_TLS_KEY: "PEM file: the server certificate's key",
  INGEST_TLS_CLIENT_CA: 'PEM file: the authorities that sign client certificates',
  INGEST_CONSUMER_ADDR: 'the address of the health endpoints, /metrics and the status page (127.0.0.1:9464)',
};

export function firstSettingsHelp(program: Program): string {
  const lines = settingsOf(program).flatMap(([key]) => (FIRST[key] ? [`  ${key.padEnd(22)}${FIRST[key]}`] : []));
  return `Settings, ${SOURCE}:\n${lines.join('\n')}\n`;
}

export interface HelpText {
  readonly program: Program;
  readonly summary: string;
  /** The exit codes that only this daemon uses. */
  readonly exits: string;
}

export function daemonHelp({ program, summary, exits }: HelpText, all: boolean): string {
  const name = `ingest-${program}`;
  const settings = all ? settingsHelp(program) : firstSettingsHelp(program);
  return `${name}: ${summary}

  ${name}                  start, with the configuration in the environment
  ${name} --check          check the configuration and its files; exit 0 or 2
  ${name} --check=connect  also connect to the queue (exit 4) and the warehouse (exit 5), and report what it finds
  ${name} --version        print the version
  ${name} --help=all       explain all ${settingsOf(program).length} settings; deploy/configure.md has the same words

${settings}
Exit codes: 0 clean stop, 1 bug, 2 configuration, 3 address cannot be bound, ${exits}.
`;
}

export function shownSettings(environment: Environment, program: Program): Readonly<Record<string, string>> {
  const names = settingsOf(program).flatMap(([key]) => formsOf(key));
  return Object.fromEntries(
    names.flatMap((name) => (environment[name] ? [[name, maskedValue(name, environment[name])]] : [])),
  );
}

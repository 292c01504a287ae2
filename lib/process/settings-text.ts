// The table of settings as text: for --help, deploy/configure.md, files in /etc/ingest, and the log.
import type { Environment } from './env.ts';
import { maskedValue } from './uri.ts';
import type { Program, Setting } from './setting.ts';
import { FIRST_KEYS, KEYS, SETTINGS, settingsOf, type Key } from './settings.ts';

const WIDTH = 110;
const INDENT = '      ';

/** The settings of one program for its --help. */
export function settingsHelp(program: Program): string {
  const lines = settingsOf(program).map(([key, setting]) => {
    const fallback = defaultText(setting, program);
    const facts = [fallback === 'required' ? fallback : `default: ${fallback}`, valuesText(setting)];
    const known = facts.filter((fact) => fact !== '').join('; ');
    return `  ${key} (${known})\n${wrapped(setting.meaning.replaceAll('`', ''))}`;
  });
  const source = 'from the environment (a key ending in _URI also as _URI_FILE, the path of a file that holds it)';
  return `Settings, ${source}:\n${lines.join('\n')}\n`;
}

/** The --help of a daemon. `exits` describes the exit codes that only this daemon has. */
export function daemonHelp(
  program: Program,
  { summary, connected, exits }: Readonly<Record<'summary' | 'connected' | 'exits', string>>,
): string {
  const name = `ingest-${program}`;
  return `${name}: ${summary}

  ${name}                  start, with the configuration in the environment
  ${name} --check          check the configuration and its files; exit 0 or 2
  ${name} --check=connect  also connect to ${connected}, and report what it finds
  ${name} --version        print the version
  ${name} --help           print this

${settingsHelp(program)}
Exit codes: 0 clean stop, 1 bug, 2 configuration, 3 address cannot be bound, ${exits}.
`;
}

/** The environment file of a service: every setting as a comment, `#KEY=default`. */
export function environmentFile(program: Program): string {
  const settings = settingsOf(program).map(([key, setting]) => {
    const fallback = defaultText(setting, program);
    const value = ['none', 'required'].includes(fallback) ? '' : fallback;
    return `${wrapped(setting.meaning.replaceAll('`', ''), '# ')}\n#${key}=${value}\n`;
  });
  return `# Settings of ingest-${program}: KEY=value. The comments show the defaults.\n\n${settings.join('\n')}`;
}

/** The settings of this program that the environment sets, with secrets masked. */
export function shownSettings(environment: Environment, program: Program): Readonly<Record<string, string>> {
  const given = settingsOf(program).flatMap(([key, { kind }]) =>
    (kind === 'uri' ? [key, `${key}_FILE`] : [key]).map((name) => [name, environment[name] ?? ''] as const),
  );
  return Object.fromEntries(
    given.filter(([, value]) => value !== '').map(([key, value]) => [key, maskedValue(key, value)]),
  );
}

/** All settings as the Markdown lists of deploy/configure.md. */
export function settingsLists(): string {
  const advanced = KEYS.filter((key) => !FIRST_KEYS.includes(key));
  return `${FIRST_KEYS.map(definition).join('\n')}

### Advanced settings

The defaults fit most installations.

${advanced.map(definition).join('\n')}`;
}

/** A list item: key, default, values and readers, then the meaning. */
function definition(key: Key): string {
  const setting: Setting = SETTINGS[key];
  const fallback = defaultText(setting, undefined);
  const isWord = fallback === 'none' || fallback.startsWith('required');
  const initially = isWord ? fallback.replace('none', 'no default') : `default \`${fallback}\``;
  const facts = [initially, valuesText(setting)].filter((fact) => fact !== '').join('; ');
  const sentence = `${setting.meaning.replace(/^[a-z]/, (letter) => letter.toUpperCase())}.`;
  const term = wrapped(`**\`${key}\`** (${facts}; read by ${setting.programs.join(', ')})\\`, '  ');
  return `* ${term.trimStart()}\n${wrapped(sentence, '  ')}`;
}

/** Without `program`, the default for a list of all programs. */
function defaultText(setting: Setting, program: Program | undefined): string {
  if (setting.kind === 'uri') {
    const required = program === undefined ? setting.required.length > 0 : setting.required.includes(program);
    if (!required) return 'none';
    const everywhere = program !== undefined || setting.required.length === setting.programs.length;
    return everywhere ? 'required' : `required by the ${setting.required.join(', ')}`;
  }
  if (setting.kind === 'flag') return '0';
  return setting.default === undefined ? 'none' : String(setting.default);
}

function valuesText(setting: Setting): string {
  switch (setting.kind) {
    case 'integer':
      return `${setting.min} to ${setting.max}${setting.unit === '' ? '' : ` ${setting.unit}`}`;
    case 'choice':
      return setting.choices.join(', ');
    case 'flag':
      return '0 or 1';
    case 'address':
      return 'host:port or [v6]:port, port 0 for any free one';
    case 'uri':
    case 'text':
      return '';
  }
}

function wrapped(text: string, indent = INDENT): string {
  const lines: string[] = [];
  let line = indent;
  for (const word of text.split(' ')) {
    if (line.length + word.length > WIDTH) {
      lines.push(line.trimEnd());
      line = indent;
    }
    line += `${word} `;
  }
  return [...lines, line.trimEnd()].join('\n');
}

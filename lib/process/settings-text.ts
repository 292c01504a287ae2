// Formats the table of settings as text for --help, deploy/configure.md, the files in /etc/ingest, and the log.
import type { Environment } from './env.ts';
import { maskedValue } from './uri.ts';
import type { Program, Setting } from './setting.ts';
import { FIRST_KEYS, KEYS, MEANINGS, SETTINGS, settingsOf, type Key } from './settings.ts';

const WIDTH = 110;
const INDENT = '      ';

export function settingsHelp(program: Program): string {
  const lines = settingsOf(program).map(([key, setting]) => {
    const fallback = defaultText(setting, program);
    const facts = [fallback === 'required' ? fallback : `default: ${fallback}`, valuesText(key, setting)];
    const known = facts.filter((fact) => fact !== '').join('; ');
    return `  ${key} (${known})\n${wrapped(MEANINGS[key].replaceAll('`', ''))}`;
  });
  const source = 'from the environment (a key ending in _URI also as _URI_FILE, the path of a file that holds it)';
  return `Settings, ${source}:\n${lines.join('\n')}\n`;
}

/** Returns the text for --help. `exits` describes the exit codes that only this daemon uses. */
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

/** Returns the environment file of a service. Every setting in it is commented out: `#KEY=default`. */
export function environmentFile(program: Program): string {
  const settings = settingsOf(program).map(([key, setting]) => {
    const fallback = defaultText(setting, program);
    const value = ['none', 'required'].includes(fallback) ? '' : fallback;
    return `${wrapped(MEANINGS[key].replaceAll('`', ''), '# ')}\n#${key}=${value}\n`;
  });
  return `# Settings of ingest-${program}: KEY=value. The comments show the defaults.\n\n${settings.join('\n')}`;
}

/** Returns the settings of this program that are set in the environment, with secrets masked. */
export function shownSettings(environment: Environment, program: Program): Readonly<Record<string, string>> {
  const given = settingsOf(program).flatMap(([key, { kind }]) =>
    (kind === 'uri' ? [key, `${key}_FILE`] : [key]).map((name) => [name, environment[name] ?? ''] as const),
  );
  return Object.fromEntries(
    given.filter(([, value]) => value !== '').map(([key, value]) => [key, maskedValue(key, value)]),
  );
}

/** Returns all settings as Markdown lists for deploy/configure.md. */
export function settingsLists(): string {
  const advanced = KEYS.filter((key) => !FIRST_KEYS.includes(key));
  return `${FIRST_KEYS.map(definition).join('\n')}

### Advanced settings

The defaults fit most installations.

${advanced.map(definition).join('\n')}`;
}

/** Returns a list item: the key, its default, its values, the programs that read it, and its meaning. */
function definition(key: Key): string {
  const setting: Setting = SETTINGS[key];
  const fallback = defaultText(setting, undefined);
  const isWord = fallback === 'none' || fallback.startsWith('required');
  const initially = isWord ? fallback.replace('none', 'no default') : `default \`${fallback}\``;
  const facts = [initially, valuesText(key, setting)].filter((fact) => fact !== '').join('; ');
  const sentence = `${MEANINGS[key].replace(/^[a-z]/, (letter) => letter.toUpperCase())}.`;
  const term = wrapped(`**\`${key}\`** (${facts}; read by ${setting.programs.join(', ')})\\`, '  ');
  return `* ${term.trimStart()}\n${wrapped(sentence, '  ')}`;
}

/** Returns the default, or a text that is true for all programs if `program` is undefined. */
function defaultText(setting: Setting, program: Program | undefined): string {
  if (setting.kind === 'uri') {
    const required = program === undefined ? setting.required.length > 0 : setting.required.includes(program);
    if (!required) return 'none';
    const everywhere = program !== undefined || setting.required.length === setting.programs.length;
    return everywhere ? 'required' : `required by ${setting.required.join(', ')}`;
  }
  if (setting.kind === 'flag') return '0';
  return setting.default === undefined ? 'none' : String(setting.default);
}

function valuesText(key: Key, setting: Setting): string {
  switch (setting.kind) {
    case 'integer': {
      const [, unit = ''] = /_(MS|BYTES)(?:_MAX)?$/.exec(key) ?? [];
      return `${setting.min} to ${setting.max} ${unit.toLowerCase()}`.trimEnd();
    }
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

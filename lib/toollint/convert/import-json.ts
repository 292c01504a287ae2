// ESLint's own JSON (`eslint -f json`), and GitLab's Code Quality report, which many linters write.
import type { Severity } from '../document/report-schema.ts';
import { isObject, looseJson } from '../document/strict-json.ts';
import type { ForeignMessage, ForeignReport, Refuse } from './import.ts';

/** A list of files, each with its messages. */
export function importEslint(text: string, refuse: Refuse): ForeignReport {
  const results = listIn(text, refuse).map((result, index) => {
    const path = stringIn(result, 'filePath');
    const messages = result['messages'];
    if (path === undefined || !Array.isArray(messages)) return refuse(`/${index}: no result of ESLint`);
    return { path, messages: messages.map((message: unknown) => eslintMessage(path, recordOf(message))) };
  });
  return {
    tool: { name: 'ESLint', informationUri: 'https://eslint.org' },
    messages: results.flatMap(({ messages }) => messages),
    paths: results.map(({ path }) => path),
  };
}

function eslintMessage(path: string, message: Readonly<Record<string, unknown>>): ForeignMessage {
  const fix = recordOf(message['fix']);
  const range: unknown[] = Array.isArray(fix['range']) ? fix['range'] : [];
  const [from, to] = range.map(Number);
  const replacement = stringIn(fix, 'text');
  return {
    path,
    ruleId: stringIn(message, 'ruleId') ?? null,
    severity: message['severity'] === 2 ? 'error' : 'warning',
    message: stringIn(message, 'message') ?? '',
    messageId: stringIn(message, 'messageId'),
    fatal: message['fatal'] === true,
    ...rangeIn(message),
    fix:
      from === undefined || to === undefined || replacement === undefined
        ? undefined
        : { offset: from, length: to - from, text: replacement },
  };
}

const GITLAB_SEVERITIES: Readonly<Record<string, Severity>> = {
  info: 'info',
  minor: 'warning',
  major: 'warning',
  critical: 'error',
  blocker: 'error',
};

export function importGitlab(text: string, refuse: Refuse): ForeignReport {
  const messages = listIn(text, refuse).map((issue, index): ForeignMessage => {
    const message = stringIn(issue, 'description');
    const location = recordOf(issue['location']);
    const path = stringIn(location, 'path');
    if (message === undefined || path === undefined) return refuse(`/${index}: no issue with a description and a path`);
    const lines = recordOf(location['lines']);
    const begin = recordOf(recordOf(location['positions'])['begin']);
    const end = recordOf(recordOf(location['positions'])['end']);
    return {
      path,
      ruleId: stringIn(issue, 'check_name') ?? 'unknown',
      severity: GITLAB_SEVERITIES[stringIn(issue, 'severity') ?? ''] ?? 'warning',
      message,
      line: numberIn(lines, 'begin') ?? numberIn(begin, 'line'),
      column: numberIn(begin, 'column'),
      endLine: numberIn(end, 'line'),
      endColumn: numberIn(end, 'column'),
    };
  });
  return { messages };
}

function listIn(text: string, refuse: Refuse): Readonly<Record<string, unknown>>[] {
  const value = looseJson(text, refuse);
  return Array.isArray(value) ? value.map(recordOf) : refuse('expected a list');
}

/** The value's members; none where it is not an object. */
export function recordOf(value: unknown): Readonly<Record<string, unknown>> {
  return isObject(value) ? value : {};
}

export function stringIn(owner: Readonly<Record<string, unknown>>, name: string): string | undefined {
  const value = owner[name];
  return typeof value === 'string' ? value : undefined;
}

export function numberIn(owner: Readonly<Record<string, unknown>>, name: string): number | undefined {
  const value = owner[name];
  return typeof value === 'number' ? value : undefined;
}

function rangeIn(owner: Readonly<Record<string, unknown>>) {
  const [line, column, endLine, endColumn] = ['line', 'column', 'endLine', 'endColumn'].map((name) =>
    numberIn(owner, name),
  );
  return { line, column, endLine, endColumn };
}

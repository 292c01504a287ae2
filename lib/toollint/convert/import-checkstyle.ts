// Checkstyle's XML, which many linters write: files with errors.
import { SaxesParser } from 'saxes';
import type { Severity } from '../document/report-schema.ts';
import type { ForeignMessage, ForeignReport, Refuse } from './import.ts';

const SEVERITIES: Readonly<Record<string, Severity>> = { error: 'error', warning: 'warning', info: 'info' };

/** Errors of the severity `ignore` are left out. */
export function importCheckstyle(text: string, refuse: Refuse): ForeignReport {
  const messages: ForeignMessage[] = [];
  const paths: string[] = [];
  let version: string | undefined;
  let isRoot = true;
  const parser = new SaxesParser();
  parser.on('error', ({ message }) => refuse(message));
  parser.on('opentag', ({ name, attributes }) => {
    if (isRoot && name !== 'checkstyle') refuse(`the root element is ${name}`);
    isRoot = false;
    if (name === 'checkstyle') version = attributes['version'];
    if (name === 'file') paths.push(attributes['name'] ?? refuse('a file without a name'));
    if (name !== 'error' || attributes['severity'] === 'ignore') return;
    messages.push({
      path: paths.at(-1) ?? refuse('an error outside a file'),
      ruleId: attributes['source'] ?? 'unknown',
      severity: SEVERITIES[attributes['severity'] ?? ''] ?? 'error',
      message: attributes['message'] ?? '',
      line: ordinal(attributes['line']),
      column: ordinal(attributes['column']),
    });
  });
  parser.write(text).close();
  return { tool: { name: 'checkstyle', version }, messages, paths };
}

function ordinal(text: string | undefined): number | undefined {
  return text === undefined || !/^[0-9]+$/u.test(text) ? undefined : Number(text);
}

// Writes GitHub's workflow commands, one line per finding. GitHub shows only the first ten of each kind, so errors come
// first.
import type { Diagnostic, Finding, Report, Severity } from '../document/report-schema.ts';
import { terminalLines } from './plain-text.ts';
import { bySeverity, ownDiagnostics } from './converter.ts';

const COMMANDS: Readonly<Record<Severity, string>> = { error: 'error', warning: 'warning', info: 'notice' };

export function* githubText(report: Report): Generator<string> {
  yield* ownDiagnostics(report).map(diagnosticLine);
  yield* bySeverity(report).map(findingLine);
}

function findingLine({ ruleId, severity, message, location: { path, line, column } }: Finding): string {
  return commandLine(COMMANDS[severity], { file: path, line, col: column, title: ruleId }, message);
}

function diagnosticLine({ kind, message, ruleId = '', relativePath }: Diagnostic): string {
  return commandLine('error', { file: relativePath, title: `${kind} ${ruleId}`.trim() }, message);
}

function commandLine(command: string, properties: Readonly<Record<string, unknown>>, message: string): string {
  const given = Object.entries(properties)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}=${escapedProperty(String(value))}`);
  return `::${command} ${given.join(',')}::${escapedData(message)}\n`;
}

function escapedData(text: string): string {
  return terminalLines(text).replaceAll('%', '%25').replaceAll('\n', '%0A');
}

function escapedProperty(text: string): string {
  return escapedData(text).replaceAll(':', '%3A').replaceAll(',', '%2C');
}

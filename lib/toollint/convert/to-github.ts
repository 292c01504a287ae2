// Writes GitHub's workflow commands, one line per finding. GitHub shows only the first ten errors and the first ten
// warnings of a step, so errors come first, and the last line counts the hidden ones.
import type { Diagnostic, Finding, Report, Severity } from '../document/report-schema.ts';
import { counted, terminalLines } from './plain-text.ts';
import { bySeverity, ownDiagnostics } from './converter.ts';

const SHOWN_MAX = 10;
const COMMANDS: Readonly<Record<Severity, string>> = { error: 'error', warning: 'warning', info: 'notice' };

export function* githubText(report: Report): Generator<string> {
  const diagnostics = ownDiagnostics(report);
  yield* diagnostics.map(diagnosticLine);
  const findings = bySeverity(report);
  yield* findings.map(findingLine);
  const count = (severity: Severity) => findings.filter((finding) => finding.severity === severity).length;
  const counts = { error: diagnostics.length + count('error'), warning: count('warning'), notice: count('info') };
  const hidden = Object.entries(counts).filter(([, number]) => number > SHOWN_MAX);
  if (hidden.length === 0) return;
  const parts = hidden.map(([name, number]) => counted(number - SHOWN_MAX, name));
  // This is not a command, because a command would use up one of the ten places.
  yield `GitHub shows ${SHOWN_MAX} of each kind for a step and hides ${parts.join(', ')}; all are in this log.\n`;
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

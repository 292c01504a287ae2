// Writes GitHub's workflow commands, one line per finding. GitHub shows only the first ten of each kind, so errors come
// first.
import type { Report } from '../document/report-schema.ts';
import { terminalLines } from './plain-text.ts';
import { bySeverity, ownDiagnostics } from './converter.ts';

export function* githubText(report: Report): Generator<string> {
  for (const { kind, message, ruleId = '', relativePath } of ownDiagnostics(report))
    yield commandLine('error', { file: relativePath, title: `${kind} ${ruleId}`.trim() }, message);
  for (const { ruleId, severity, message, location } of bySeverity(report)) {
    const { path: file, line, column: col } = location;
    yield commandLine(severity === 'info' ? 'notice' : severity, { file, line, col, title: ruleId }, message);
  }
}

function commandLine(command: string, properties: Readonly<Record<string, unknown>>, message: string): string {
  const pairs = Object.entries(properties)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}=${escaped(String(value)).replaceAll(':', '%3A').replaceAll(',', '%2C')}`);
  return `::${command} ${pairs.join(',')}::${escaped(message)}\n`;
}

const escaped = (text: string) => terminalLines(text).replaceAll('%', '%25').replaceAll('\n', '%0A');

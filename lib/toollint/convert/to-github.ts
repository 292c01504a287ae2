// GitHub's workflow commands: a line for each finding, shown at its place in a pull request. GitHub shows the first ten
// of each kind, so errors come first.
import { bySeverity } from './by-severity.ts';
import type { ConvertOptions } from './convert-options.ts';
import type { Diagnostic, Finding, Severity } from '../document/report-schema.ts';
import type { ReportSource } from '../document/report-source.ts';
import type { TextSink } from '../document/report-writer.ts';

const COMMANDS: Readonly<Record<Severity, string>> = { error: 'error', warning: 'warning', info: 'notice' };

/** Writes the commands; diagnostics are errors. */
export async function writeGithub(report: ReportSource, sink: TextSink, _options: ConvertOptions): Promise<void> {
  await sink(report.header.execution.diagnostics.map(diagnosticLine).join(''));
  for await (const batch of bySeverity(report)) await sink(batch.map(findingLine).join(''));
}

function findingLine({ ruleId, severity, message, location }: Finding): string {
  const { path, line, column } = location;
  const properties: [string, string | number | undefined][] = [
    ['file', path],
    ['line', line],
    ['col', column],
    ['title', ruleId],
  ];
  return commandLine(COMMANDS[severity], properties, message);
}

function diagnosticLine({ kind, message, ruleId, relativePath }: Diagnostic): string {
  return commandLine(
    'error',
    [
      ['file', relativePath],
      ['title', ruleId === undefined ? kind : `${kind} ${ruleId}`],
    ],
    message,
  );
}

function commandLine(
  command: string,
  properties: readonly [string, string | number | undefined][],
  message: string,
): string {
  const given = properties
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}=${escapedProperty(String(value))}`);
  return `::${command} ${given.join(',')}::${escapedData(message)}\n`;
}

function escapedData(text: string): string {
  return text.toWellFormed().replaceAll('%', '%25').replaceAll('\r', '%0D').replaceAll('\n', '%0A');
}

function escapedProperty(text: string): string {
  return escapedData(text).replaceAll(':', '%3A').replaceAll(',', '%2C');
}

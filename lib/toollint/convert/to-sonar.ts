// SonarQube's generic issue format: rules and issues. Diagnostics are blockers.
import type { ConvertOptions } from './convert-options.ts';
import type { Finding, Severity } from '../document/report-schema.ts';
import type { ReportSource } from '../document/report-source.ts';
import type { TextSink } from '../document/report-writer.ts';

const IMPACTS: Readonly<Record<Severity, string>> = { error: 'HIGH', warning: 'MEDIUM', info: 'LOW' };
const ENGINE_ID = 'toollint';

/** Writes the document; the rules stand behind the issues, because they are known only then. */
export async function writeSonar(
  { header, findings }: ReportSource,
  sink: TextSink,
  _options: ConvertOptions,
): Promise<void> {
  const rules = new Map<string, Record<string, unknown>>();
  const fallback = header.scan.target?.path ?? '.';
  let separator = '{"issues":[\n';
  // A run that did not reach its end may not look like a clean one.
  for (const { kind, message, ruleId, relativePath } of header.execution.diagnostics) {
    const id = ruleId === undefined ? kind : `${kind} ${ruleId}`;
    if (!rules.has(id)) rules.set(id, blockerRule(id));
    const primaryLocation = { message: message.toWellFormed(), filePath: relativePath ?? fallback };
    await sink(separator + JSON.stringify({ ruleId: id, primaryLocation }));
    separator = ',\n';
  }
  for await (const batch of findings()) {
    let text = '';
    for (const finding of batch) {
      if (!rules.has(finding.ruleId)) rules.set(finding.ruleId, ruleOf(finding));
      text += separator + JSON.stringify(issueOf(finding, fallback));
      separator = ',\n';
    }
    if (text !== '') await sink(text);
  }
  await sink(`${separator === ',\n' ? '\n' : separator}],"rules":${JSON.stringify([...rules.values()])}}\n`);
}

function blockerRule(id: string): Record<string, unknown> {
  const impacts = [{ softwareQuality: 'RELIABILITY', severity: 'BLOCKER' }];
  return { id, name: id, description: id, engineId: ENGINE_ID, cleanCodeAttribute: 'LOGICAL', impacts };
}

function ruleOf({ ruleId, severity, category }: Finding): Record<string, unknown> {
  return {
    id: ruleId,
    name: ruleId,
    description: ruleId,
    engineId: ENGINE_ID,
    cleanCodeAttribute: category === 'layout' ? 'FORMATTED' : 'CONVENTIONAL',
    impacts: [
      { softwareQuality: category === 'problem' ? 'RELIABILITY' : 'MAINTAINABILITY', severity: IMPACTS[severity] },
    ],
  };
}

function issueOf({ ruleId, message, location }: Finding, fallback: string): Record<string, unknown> {
  const { path, line } = location;
  const primary: Record<string, unknown> = { message: message.toWellFormed(), filePath: path ?? fallback };
  // Only the line: SonarQube refuses a whole report for one range that ends where it starts or behind its line.
  if (line !== undefined) primary['textRange'] = { startLine: line };
  return { ruleId, primaryLocation: primary };
}

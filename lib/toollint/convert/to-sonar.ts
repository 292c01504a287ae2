// SonarQube's generic issue format: rules and issues. Columns count from 0 there.
import type { ConvertOptions } from './convert-options.ts';
import type { Finding, Severity } from '../document/report-schema.ts';
import type { ReportSource } from '../document/report-source.ts';
import type { TextSink } from '../document/report-writer.ts';

const IMPACTS: Readonly<Record<Severity, string>> = { error: 'HIGH', warning: 'MEDIUM', info: 'LOW' };
const ENGINE_ID = 'toollint';

/** Writes the document; the rules stand behind the issues, because they are known only then. */
export async function writeSonar({ header, findings }: ReportSource, sink: TextSink, _options: ConvertOptions): Promise<void> {
  const rules = new Map<string, Record<string, unknown>>();
  const fallback = header.scan.target?.path ?? '.';
  let separator = '{"issues":[\n';
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

function ruleOf({ ruleId, severity, category }: Finding): Record<string, unknown> {
  return {
    id: ruleId,
    name: ruleId,
    description: ruleId,
    engineId: ENGINE_ID,
    cleanCodeAttribute: category === 'layout' ? 'FORMATTED' : 'CONVENTIONAL',
    impacts: [{ softwareQuality: category === 'problem' ? 'RELIABILITY' : 'MAINTAINABILITY', severity: IMPACTS[severity] }],
  };
}

function issueOf({ ruleId, message, location }: Finding, fallback: string): Record<string, unknown> {
  const { path, line, column } = location;
  const primary: Record<string, unknown> = { message: message.toWellFormed(), filePath: path ?? fallback };
  if (line !== undefined) {
    primary['textRange'] = column === undefined ? { startLine: line } : { startLine: line, startColumn: column - 1 };
  }
  return { ruleId, primaryLocation: primary };
}

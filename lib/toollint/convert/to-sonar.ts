// SonarQube's generic issue format: rules and issues. Diagnostics are blockers.
import type { Finding, Report, Severity } from '../document/report-schema.ts';
import { listText } from '../document/report-writer.ts';
import { ownDiagnostics } from './converter.ts';

const IMPACTS: Readonly<Record<Severity, string>> = { error: 'HIGH', warning: 'MEDIUM', info: 'LOW' };
const ENGINE_ID = 'toollint';

export function* sonarText(report: Report): Generator<string> {
  const rules = new Map<string, Record<string, unknown>>();
  const fallback = report.scan.target?.path ?? '.';
  const issues: unknown[] = [];
  // A run that did not reach its end may not look like a clean one.
  for (const { kind, message, ruleId, relativePath } of ownDiagnostics(report)) {
    const id = ruleId === undefined ? kind : `${kind} ${ruleId}`;
    if (!rules.has(id)) rules.set(id, blockerRule(id));
    issues.push({
      ruleId: id,
      primaryLocation: { message: message.toWellFormed(), filePath: relativePath ?? fallback },
    });
  }
  for (const finding of report.findings) {
    if (!rules.has(finding.ruleId)) rules.set(finding.ruleId, ruleOf(finding));
    issues.push(issueOf(finding, fallback));
  }
  yield '{"issues":';
  yield* listText(issues);
  yield `,"rules":${JSON.stringify([...rules.values()])}}\n`;
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

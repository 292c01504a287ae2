// SonarQube's generic issue format: rules and issues. Diagnostics are blockers.
import type { Finding, Report, Severity } from '../document/report-schema.ts';
import { listText } from '../document/report-writer.ts';
import { ownDiagnostics } from './converter.ts';

const IMPACTS: Readonly<Record<Severity, string>> = { error: 'HIGH', warning: 'MEDIUM', info: 'LOW' };

export function* sonarText(report: Report): Generator<string> {
  const rules = new Map<string, Record<string, unknown>>();
  const fallback = report.scan.target?.path ?? '.';
  const issues: unknown[] = [];
  // A run that did not reach its end may not look like a clean one.
  for (const { kind, message, ruleId, relativePath } of ownDiagnostics(report)) {
    const id = ruleId === undefined ? kind : `${kind} ${ruleId}`;
    rules.set(id, ruleOf(id, 'LOGICAL', { softwareQuality: 'RELIABILITY', severity: 'BLOCKER' }));
    issues.push({
      ruleId: id,
      primaryLocation: { message: message.toWellFormed(), filePath: relativePath ?? fallback },
    });
  }
  for (const finding of report.findings) {
    if (!rules.has(finding.ruleId)) rules.set(finding.ruleId, findingRule(finding));
    issues.push(issueOf(finding, fallback));
  }
  yield '{"issues":';
  yield* listText(issues);
  yield `,"rules":${JSON.stringify([...rules.values()])}}\n`;
}

function ruleOf(id: string, cleanCodeAttribute: string, impact: Readonly<Record<string, string>>) {
  return { id, name: id, description: id, engineId: 'toollint', cleanCodeAttribute, impacts: [impact] };
}

function findingRule({ ruleId, severity, category }: Finding): Record<string, unknown> {
  const softwareQuality = category === 'problem' ? 'RELIABILITY' : 'MAINTAINABILITY';
  const attribute = category === 'layout' ? 'FORMATTED' : 'CONVENTIONAL';
  return ruleOf(ruleId, attribute, { softwareQuality, severity: IMPACTS[severity] });
}

function issueOf({ ruleId, message, location }: Finding, fallback: string): Record<string, unknown> {
  const { path, line } = location;
  const primary: Record<string, unknown> = { message: message.toWellFormed(), filePath: path ?? fallback };
  // Only the line: SonarQube refuses a whole report for one range that ends where it starts or behind its line.
  if (line !== undefined) primary['textRange'] = { startLine: line };
  return { ruleId, primaryLocation: primary };
}

// SARIF 2.1.0 (OASIS): one run. The rules stand behind the results in the text, because they are known only then.
// partialFingerprints carries the report's own identity; GitHub's primaryLocationLineHash is left to its uploader.
import type { ConvertOptions } from './convert-options.ts';
import { linkOf, pathUri } from './plain-text.ts';
import { type Diagnostic, FINGERPRINT_VERSION, type Finding, type ReportHeader, type Severity } from '../document/report-schema.ts';
import type { ReportSource } from '../document/report-source.ts';
import type { TextSink } from '../document/report-writer.ts';

const LEVELS: Readonly<Record<Severity, string>> = { error: 'error', warning: 'warning', info: 'note' };

/** GitHub takes 25,000 results of a run; the command line warns above. */
export const SARIF_RESULTS_MAX = 25_000;

interface SarifRule {
  readonly id: string;
  readonly helpUri?: string;
}

/** Writes the log file. */
export async function writeSarif({ header, findings }: ReportSource, sink: TextSink, options: ConvertOptions): Promise<void> {
  const rules = new Map<string, { index: number; rule: SarifRule }>();
  const stateOf = options.baselineState ?? (header.selection.baseline === undefined ? undefined : () => 'new' as const);
  await sink('{"$schema":"https://json.schemastore.org/sarif-2.1.0.json","version":"2.1.0","runs":[{"columnKind":"utf16CodeUnits","results":[');
  let index = 0;
  for await (const batch of findings()) {
    let text = '';
    for (const finding of batch) {
      const result = resultOf(finding, ruleIndex(rules, finding), stateOf?.(index));
      text += `${index === 0 ? '\n' : ',\n'}${JSON.stringify(result)}`;
      index += 1;
    }
    if (text !== '') await sink(text);
  }
  const rest = JSON.stringify(runRest(header, [...rules.values()].map(({ rule }) => rule))).slice(1);
  await sink(`\n],${rest}]}\n`);
}

function ruleIndex(rules: Map<string, { index: number; rule: SarifRule }>, { ruleId, docsUrl }: Finding): number {
  const known = rules.get(ruleId);
  if (known !== undefined) return known.index;
  const helpUri = linkOf(docsUrl);
  const entry = { index: rules.size, rule: helpUri === undefined ? { id: ruleId } : { id: ruleId, helpUri } };
  rules.set(ruleId, entry);
  return entry.index;
}

function resultOf(finding: Finding, ruleIndex: number, baselineState: string | undefined): Record<string, unknown> {
  const { ruleId, severity, message, fingerprint, occurrence, location } = finding;
  const result: Record<string, unknown> = {
    ruleId,
    ruleIndex,
    level: LEVELS[severity],
    message: { text: message.toWellFormed() },
    partialFingerprints: { [FINGERPRINT_VERSION]: `${fingerprint}:${occurrence}` },
  };
  if (location.scope === 'file' && location.path !== undefined) result['locations'] = [{ physicalLocation: physical(location) }];
  if (baselineState !== undefined) result['baselineState'] = baselineState;
  return result;
}

function physical({ path = '', line, column }: Finding['location']): Record<string, unknown> {
  const artifactLocation = { uri: pathUri(path), uriBaseId: '%SRCROOT%' };
  if (line === undefined) return { artifactLocation };
  return { artifactLocation, region: column === undefined ? { startLine: line } : { startLine: line, startColumn: column } };
}

function runRest({ tool, execution, gate, scan }: ReportHeader, rules: SarifRule[]): Record<string, unknown> {
  const notifications = execution.diagnostics.map(notificationOf);
  return {
    tool: { driver: { name: tool.name || 'unknown', version: tool.version, rules } },
    invocations: [{ executionSuccessful: execution.status === 'complete', toolExecutionNotifications: notifications }],
    properties: { gate, scan: { profile: scan.profile, timestamp: scan.timestamp }, executionStatus: execution.status },
  };
}

function notificationOf({ kind, message, ruleId, relativePath }: Diagnostic): Record<string, unknown> {
  const notification: Record<string, unknown> = { level: 'error', message: { text: message.toWellFormed() }, descriptor: { id: kind } };
  if (ruleId !== undefined) notification['associatedRule'] = { id: ruleId };
  if (relativePath !== undefined) {
    notification['locations'] = [{ physicalLocation: { artifactLocation: { uri: pathUri(relativePath), uriBaseId: '%SRCROOT%' } } }];
  }
  return notification;
}

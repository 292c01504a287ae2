// SARIF 2.1.0 (OASIS): one run. The rules stand behind the results in the text, because they are known only then.
// partialFingerprints carries the report's own identity; GitHub's primaryLocationLineHash is left to its uploader.
import type { Location, Notification, ReportingDescriptor, Result, Run } from 'sarif';
import { FINGERPRINT_VERSION } from '../document/report-format.ts';
import type { Diagnostic, Finding, ReportHeader, Severity } from '../document/report-schema.ts';
import type { ReportSource } from '../document/report-source.ts';
import type { TextSink } from '../document/report-writer.ts';
import type { ConvertOptions } from './convert-options.ts';
import { linkOf, pathUri } from './plain-text.ts';

const LEVELS: Readonly<Record<Severity, 'error' | 'warning' | 'note'>> = {
  error: 'error',
  warning: 'warning',
  info: 'note',
};

/** GitHub takes 25,000 results of a run; the command line warns above. */
export const SARIF_RESULTS_MAX = 25_000;

/** Writes the log file. */
export async function writeSarif(
  { header, findings }: ReportSource,
  sink: TextSink,
  options: ConvertOptions,
): Promise<void> {
  const rules = new Map<string, { index: number; rule: ReportingDescriptor }>();
  const stateOf = options.baselineState ?? (header.selection.baseline === undefined ? undefined : () => 'new' as const);
  const isWritten = choiceOf(header, options.resultsMax);
  await sink(
    '{"$schema":"https://json.schemastore.org/sarif-2.1.0.json","version":"2.1.0","runs":[{"columnKind":"utf16CodeUnits","results":[',
  );
  let index = -1;
  let separator = '\n';
  for await (const batch of findings()) {
    let text = '';
    for (const finding of batch) {
      index += 1;
      if (!isWritten(finding.severity)) continue;
      text += separator + JSON.stringify(resultOf(finding, ruleIndex(rules, finding), stateOf?.(index)));
      separator = ',\n';
    }
    if (text !== '') await sink(text);
  }
  const rest = JSON.stringify(
    runRest(
      header,
      [...rules.values()].map(({ rule }) => rule),
    ),
  ).slice(1);
  await sink(`\n],${rest}]}\n`);
}

/** Says of each finding in turn whether it is among the first `most`, errors before warnings before the rest. */
function choiceOf({ summary }: ReportHeader, most = Infinity): (severity: Severity) => boolean {
  const { error, warning } = summary.bySeverity;
  const room = { error: most, warning: most - error, info: most - error - warning };
  return (severity) => {
    room[severity] -= 1;
    return room[severity] >= 0;
  };
}

function ruleIndex(rules: Map<string, { index: number; rule: ReportingDescriptor }>, finding: Finding): number {
  const known = rules.get(finding.ruleId);
  if (known !== undefined) return known.index;
  const entry = { index: rules.size, rule: descriptorOf(finding) };
  rules.set(finding.ruleId, entry);
  return entry.index;
}

function descriptorOf({ ruleId, docsUrl, category, standardIds }: Finding): ReportingDescriptor {
  const helpUri = linkOf(docsUrl);
  const about = `${ruleId}${category === undefined ? '' : ` (${category})`}`;
  const tags = [...(category === undefined ? [] : [category]), ...standardIds];
  return {
    id: ruleId,
    name: ruleId,
    shortDescription: { text: about },
    help: { text: helpUri === undefined ? about : `${about}: ${helpUri}` },
    ...(helpUri === undefined ? {} : { helpUri }),
    ...(tags.length === 0 ? {} : { properties: { tags: [...new Set(tags)] } }),
  };
}

function resultOf(finding: Finding, ruleIndex: number, baselineState: 'new' | 'unchanged' | undefined): Result {
  const { ruleId, severity, message, fingerprint, occurrence, location, suggestion, category } = finding;
  const properties = {
    ...(suggestion === undefined ? {} : { suggestion: suggestion.toWellFormed() }),
    ...(category === undefined ? {} : { category }),
  };
  return {
    ruleId,
    ruleIndex,
    level: LEVELS[severity],
    message: { text: message.toWellFormed() },
    partialFingerprints: { [FINGERPRINT_VERSION]: `${fingerprint}:${occurrence}` },
    ...(location.scope === 'file' && location.path !== undefined ? { locations: [locationOf(location)] } : {}),
    ...(baselineState === undefined ? {} : { baselineState }),
    ...(Object.keys(properties).length === 0 ? {} : { properties }),
  };
}

function locationOf({ path = '', line, column }: Pick<Finding['location'], 'path' | 'line' | 'column'>): Location {
  const artifactLocation = { uri: pathUri(path), uriBaseId: '%SRCROOT%' };
  if (line === undefined) return { physicalLocation: { artifactLocation } };
  const region = column === undefined ? { startLine: line } : { startLine: line, startColumn: column };
  return { physicalLocation: { artifactLocation, region } };
}

function runRest({ tool, execution, gate, scan }: ReportHeader, rules: ReportingDescriptor[]): Omit<Run, 'results'> {
  const toolExecutionNotifications = execution.diagnostics.map(notificationOf);
  // SARIF wants a version that follows Semantic Versioning 2.0.
  const semantic = /^\d+\.\d+\.\d+(?:[-+].*)?$/u.test(tool.version) ? { semanticVersion: tool.version } : {};
  const folder = scan.target?.path;
  return {
    tool: { driver: { name: tool.name || 'unknown', version: tool.version, ...semantic, rules } },
    automationDetails: {
      id: `${tool.name || 'unknown'}/${folder === undefined || folder === '.' ? '' : `${folder}/`}`,
    },
    invocations: [{ executionSuccessful: execution.status === 'complete', toolExecutionNotifications }],
    properties: { gate, scan: { profile: scan.profile, timestamp: scan.timestamp }, executionStatus: execution.status },
  };
}

function notificationOf({ kind, message, ruleId, relativePath }: Diagnostic): Notification {
  return {
    level: 'error',
    message: { text: message.toWellFormed() },
    descriptor: { id: kind },
    ...(ruleId === undefined ? {} : { associatedRule: { id: ruleId } }),
    ...(relativePath === undefined ? {} : { locations: [locationOf({ path: relativePath })] }),
  };
}

// SARIF 2.1.0 (OASIS): one run. partialFingerprints has the report's own identity; GitHub's primaryLocationLineHash is
// left to its uploader.
import type { Fix, Location, Notification, ReportingDescriptor, Result, Run } from 'sarif';
import { endOf, fixOf, linterOf, ruleTextsOf } from '../document/extension.ts';
import { FINGERPRINT_VERSION } from '../document/report-format.ts';
import type { Diagnostic, Finding, Report } from '../document/report-schema.ts';
import { listText } from '../document/report-writer.ts';
import { linkOf, pathUri } from './plain-text.ts';
import { type ConvertOptions, ownDiagnostics } from './converter.ts';

const LEVELS = { error: 'error', warning: 'warning', info: 'note' } as const;
const RANKS = { error: 0, warning: 1, info: 2 } as const;

/** GitHub takes 25,000 results of a run; the command line warns above. */
export const SARIF_RESULTS_MAX = 25_000;

export function* sarifText(report: Report, options: ConvertOptions): Generator<string> {
  const { baselineState, absent = [] } = options;
  const findings = worstOf(report.findings, options.resultsMax);
  const stateOf = baselineState ?? (report.selection.baseline === undefined ? undefined : () => 'new' as const);
  const texts = new Map(Object.entries(ruleTextsOf(report)));
  const firsts = Map.groupBy([...findings, ...absent], ({ ruleId }) => ruleId);
  const indexes = new Map([...firsts.keys()].map((ruleId, index) => [ruleId, index]));
  const rules = [...firsts].map(([ruleId, [finding]]) => descriptorOf(finding as Finding, texts.get(ruleId)));
  const written = (finding: Finding, state: Result.baselineState | undefined) =>
    resultOf(finding, indexes.get(finding.ruleId) as number, state);
  yield '{"$schema":"https://json.schemastore.org/sarif-2.1.0.json","version":"2.1.0",';
  yield '"runs":[{"columnKind":"utf16CodeUnits","results":';
  const results = function* () {
    for (const finding of findings) yield written(finding, stateOf?.(finding));
    for (const finding of absent) yield written(finding, 'absent');
  };
  yield* listText(results());
  yield `,${JSON.stringify(runRest(report, rules)).slice(1)}]}\n`;
}

/** The worst `most`, in the order of the report. */
function worstOf(findings: readonly Finding[], most = Infinity): readonly Finding[] {
  const bySeverity = findings.toSorted((one, other) => RANKS[one.severity] - RANKS[other.severity]);
  const worst = new Set(bySeverity.slice(0, most));
  return findings.filter((finding) => worst.has(finding));
}

function descriptorOf(
  { ruleId, docsUrl, category, standardIds }: Finding,
  description: string | undefined,
): ReportingDescriptor {
  const helpUri = linkOf(docsUrl);
  const about = `${ruleId}${category === undefined ? '' : ` (${category})`}`;
  const text = (description ?? about).toWellFormed();
  const tags = [...(category === undefined ? [] : [category]), ...standardIds];
  const name = pascalCase(ruleId);
  return {
    id: ruleId,
    // A name has to differ from the id, and in more than case.
    name: name === '' || name.toLowerCase() === ruleId.toLowerCase() ? undefined : name,
    shortDescription: { text },
    fullDescription: { text },
    help: { text: helpUri === undefined ? about : `${about}: ${helpUri}` },
    helpUri,
    properties: tags.length === 0 ? undefined : { tags: [...new Set(tags)] },
  };
}

/** 'no-var' is NoVar, 'PARSE-ERROR' is ParseError. */
function pascalCase(id: string): string {
  const rest = (word: string) => (word === word.toUpperCase() ? word.slice(1).toLowerCase() : word.slice(1));
  const words = id.split(/[^\p{L}\p{N}]+/u);
  return words.map((word) => word.slice(0, 1).toUpperCase() + rest(word)).join('');
}

function resultOf(finding: Finding, ruleIndex: number, baselineState: Result.baselineState | undefined): Result {
  const { ruleId, severity, message, fingerprint, occurrence, location, suggestion, category } = finding;
  const hasProperties = suggestion !== undefined || category !== undefined;
  const isInFile = location.scope === 'file' && location.path !== undefined;
  const fix = isInFile ? fixesOf(finding) : undefined;
  return {
    ruleId,
    ruleIndex,
    level: LEVELS[severity],
    message: { text: message.toWellFormed() },
    partialFingerprints: { [FINGERPRINT_VERSION]: `${fingerprint}:${occurrence}` },
    locations: isInFile ? [locationOf(finding)] : undefined,
    fixes: fix === undefined ? undefined : [fix],
    baselineState,
    properties: hasProperties ? { suggestion: suggestion?.toWellFormed(), category } : undefined,
  };
}

const artifactOf = (path: string) => ({ uri: pathUri(path), uriBaseId: '%SRCROOT%' });

function locationOf(finding: Finding): Location {
  const { path = '', line, column } = finding.location;
  const artifactLocation = artifactOf(path);
  if (line === undefined) return { physicalLocation: { artifactLocation } };
  const end = endOf(finding);
  const region = { startLine: line, startColumn: column, ...end };
  const snippet = finding.codeSnippet === undefined ? undefined : { text: finding.codeSnippet.toWellFormed() };
  if (snippet === undefined || (end !== undefined && end.endLine !== line))
    return { physicalLocation: { artifactLocation, region } };
  // The snippet is of one line, which is a context only for a part of that line.
  const isWhole = column === undefined || (column === 1 && end === undefined);
  const shown = isWhole
    ? { region: { ...region, snippet } }
    : { region, contextRegion: { startLine: line, endLine: line, snippet } };
  return { physicalLocation: { artifactLocation, ...shown } };
}

function fixesOf(finding: Finding): Fix | undefined {
  const fix = fixOf(finding);
  if (fix === undefined) return undefined;
  const deletedRegion = { charOffset: fix.offset, charLength: fix.length };
  const replacement = { deletedRegion, insertedContent: { text: fix.text.toWellFormed() } };
  return {
    description: { text: (finding.suggestion ?? 'The rule can fix this.').toWellFormed() },
    artifactChanges: [{ artifactLocation: artifactOf(finding.location.path ?? ''), replacements: [replacement] }],
  };
}

function runRest(report: Report, rules: ReportingDescriptor[]): Omit<Run, 'results'> {
  const { tool, execution, gate, scan } = report;
  const linter = linterOf(report);
  const informationUri = linkOf(linter?.informationUri);
  const folder = scan.target?.path;
  const name = tool.name || 'unknown';
  return {
    tool: {
      driver: { ...component(name, tool.version), informationUri, rules },
      extensions: linter === undefined ? undefined : [component(linter.name, linter.version)],
    },
    automationDetails: { id: `${name}/${folder === undefined || folder === '.' ? '' : `${folder}/`}` },
    invocations: [
      {
        executionSuccessful: execution.status === 'complete',
        toolExecutionNotifications: ownDiagnostics(report).map(notificationOf),
      },
    ],
    properties: { gate, scan: { profile: scan.profile, timestamp: scan.timestamp }, executionStatus: execution.status },
  };
}

/** SARIF wants a semantic version that follows Semantic Versioning 2.0. */
function component(name: string, version: string) {
  const isSemantic = /^\d+\.\d+\.\d+(?:[-+].*)?$/u.test(version);
  return { name, version, semanticVersion: isSemantic ? version : undefined };
}

function notificationOf({ kind, message, ruleId, relativePath }: Diagnostic): Notification {
  return {
    level: 'error',
    message: { text: message.toWellFormed() },
    descriptor: { id: kind },
    associatedRule: ruleId === undefined ? undefined : { id: ruleId },
    locations:
      relativePath === undefined ? undefined : [{ physicalLocation: { artifactLocation: artifactOf(relativePath) } }],
  };
}

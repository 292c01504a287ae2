// Writes SARIF 2.1.0 (OASIS) with one run. It omits primaryLocationLineHash, which GitHub's uploader computes.
import type { Location, Notification, ReportingDescriptor, Result, Run } from 'sarif';
import { endOf, flaggedTextOf, type Linter, lintersOf, ruleTextsOf } from '../document/extension.ts';
import { FINGERPRINT_VERSION, TOOL_NAME, TOOL_URI } from '../document/report-format.ts';
import type { Diagnostic, Finding, Report } from '../document/report-schema.ts';
import { jsonText, listText } from '../document/output-file.ts';
import { linkOf, pathUri } from './plain-text.ts';
import { bySeverity, type ConvertOptions, ownDiagnostics, type Stated, statedFindings } from './converter.ts';

const LEVELS = { error: 'error', warning: 'warning', info: 'note' } as const;

/** GitHub rejects a run with more results. */
export const SARIF_RESULTS_MAX = 25_000;
/** GitHub rejects a rule with more tags. */
const TAGS_MAX = 20;

export function* sarifText(report: Report, options: ConvertOptions): Generator<string> {
  const stated = worstOf(statedFindings(report, options), options.resultsMax);
  const texts = new Map(Object.entries(ruleTextsOf(report)));
  const firsts = Map.groupBy(stated, ({ finding }) => finding.ruleId);
  const indexes = new Map([...firsts.keys()].map((ruleId, index) => [ruleId, index]));
  const rules = [...firsts].map(([ruleId, [first, ...others]]) => {
    // A weakness of one result is not one of its rule.
    const ids = others.reduce(
      (common, { finding }) => common.filter((id) => finding.standardIds.includes(id)),
      (first as Stated).finding.standardIds,
    );
    return descriptorOf({ ...(first as Stated).finding, standardIds: ids }, texts.get(ruleId));
  });
  const projectPath = options.projectFile ?? report.scan.target?.path ?? '.';
  yield '{"$schema":"https://json.schemastore.org/sarif-2.1.0.json","version":"2.1.0",';
  yield '"runs":[{"columnKind":"utf16CodeUnits","results":';
  const results = function* () {
    for (const one of stated) yield resultOf(one, indexes.get(one.finding.ruleId) as number, projectPath);
  };
  yield* listText(results());
  yield `,${jsonText(runRest(report, rules)).slice(1)}]}\n`;
}

/** Fixed findings are not counted. */
function worstOf(stated: readonly Stated[], most = Infinity): readonly Stated[] {
  const findings = stated.flatMap(({ finding, state }) => (state === 'fixed' ? [] : [finding]));
  const rest = new Set(bySeverity({ findings }).slice(most));
  return stated.filter(({ finding }) => !rest.has(finding));
}

function descriptorOf({ ruleId, docsUrl, category, standardIds }: Finding, description?: string): ReportingDescriptor {
  const helpUri = linkOf(docsUrl);
  const about = `${ruleId}${category === undefined ? '' : ` (${category})`}`;
  const text = (description ?? about).toWellFormed();
  const tags = [...(category === undefined ? [] : [category]), ...standardIds];
  const name = pascalCase(ruleId);
  return {
    id: ruleId,
    // SARIF requires a name that differs from the id in more than case.
    name: name === '' || name.toLowerCase() === ruleId.toLowerCase() ? undefined : name,
    ...{ shortDescription: { text }, fullDescription: { text } },
    help: { text: helpUri === undefined ? about : `${about}: ${helpUri}` },
    helpUri,
    properties: tags.length === 0 ? undefined : { tags: [...new Set(tags)].slice(0, TAGS_MAX) },
  };
}

function pascalCase(id: string): string {
  const rest = (word: string) => (word === word.toUpperCase() ? word.slice(1).toLowerCase() : word.slice(1));
  const words = id.split(/[^\p{L}\p{N}]+/u);
  return words.map((word) => word.slice(0, 1).toUpperCase() + rest(word)).join('');
}

function resultOf({ finding, state }: Stated, ruleIndex: number, projectPath: string): Result {
  const { ruleId, severity, message, fingerprint, occurrence, suggestion, category, standardIds } = finding;
  const tags = standardIds.length === 0 ? undefined : standardIds.slice(0, TAGS_MAX);
  const hasProperties = (suggestion ?? category ?? tags) !== undefined;
  return {
    ...{ ruleId, ruleIndex, level: LEVELS[severity] },
    message: { text: message.toWellFormed() },
    partialFingerprints: { [FINGERPRINT_VERSION]: `${fingerprint}:${occurrence}` },
    baselineState: state === 'fixed' ? 'absent' : state,
    properties: hasProperties ? { suggestion: suggestion?.toWellFormed(), category, tags } : undefined,
    locations: [locationOf(finding, projectPath)],
  };
}

const artifactOf = (path: string) => ({ uri: pathUri(path), uriBaseId: '%SRCROOT%' });

/** A finding about the project has a place, too, because GitHub rejects a whole log if one result has none. */
function locationOf(finding: Finding, projectPath: string): Location {
  const { scope, path, line, column } = finding.location;
  const artifactLocation = artifactOf((scope === 'file' ? path : undefined) ?? projectPath);
  if (scope === 'project' || path === undefined || line === undefined)
    return { physicalLocation: { artifactLocation, region: { startLine: 1 } } };
  const codeSnippet = finding.codeSnippet?.toWellFormed();
  const text = (column === undefined ? undefined : flaggedTextOf(finding)) ?? codeSnippet;
  const snippet = text === undefined ? undefined : { text };
  const region = { startLine: line, startColumn: column, ...endOf(finding), snippet };
  const isWhole = codeSnippet === undefined || text === codeSnippet || (region.endLine ?? line) !== line;
  const contextRegion = isWhole ? undefined : { startLine: line, endLine: line, snippet: { text: codeSnippet } };
  return { physicalLocation: { artifactLocation, region, contextRegion } };
}

function runRest(report: Report, rules: ReportingDescriptor[]): Omit<Run, 'results'> {
  const { tool, execution, gate, scan } = report;
  const folder = scan.target?.path;
  const errors = ownDiagnostics(report).map(notificationOf);
  const name = tool.name || 'unknown';
  const linters = lintersOf(report);
  // An imported report names its linter as its tool.
  const own = linters.find((linter) => linter.name === name) ?? {
    ...{ name, version: tool.version },
    ...(name === TOOL_NAME ? { informationUri: TOOL_URI } : {}),
  };
  const others = linters.filter((linter) => linter.name !== name).map(component);
  return {
    tool: { driver: { ...component(own), rules }, extensions: others.length === 0 ? undefined : others },
    automationDetails: { id: `${name}/${folder === undefined || folder === '.' ? '' : `${folder}/`}` },
    invocations: [{ executionSuccessful: execution.status === 'complete', toolExecutionNotifications: errors }],
    properties: { gate, scan: { profile: scan.profile, timestamp: scan.timestamp }, executionStatus: execution.status },
  };
}

/** `semanticVersion` must follow Semantic Versioning 2.0. */
function component({ name, version, informationUri }: Linter) {
  const isSemantic = /^\d+\.\d+\.\d+(?:[-+].*)?$/u.test(version);
  const semanticVersion = isSemantic ? version : undefined;
  return { name, version, semanticVersion, informationUri: linkOf(informationUri) };
}

function notificationOf({ kind, message, ruleId, relativePath }: Diagnostic): Notification {
  return {
    ...{ level: 'error', message: { text: message.toWellFormed() }, descriptor: { id: kind } },
    associatedRule: ruleId === undefined ? undefined : { id: ruleId },
    locations:
      relativePath === undefined ? undefined : [{ physicalLocation: { artifactLocation: artifactOf(relativePath) } }],
  };
}

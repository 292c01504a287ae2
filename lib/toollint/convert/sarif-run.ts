// Reads a run of SARIF 2.1.0 (OASIS). A result without a level has that of a configuration override or of its rule's
// default configuration (section 3.27.10). Absent and passed results are skipped, suppressed ones are counted.
import { posix } from 'node:path';
import { type LintMessage, type RuleFacts, withoutAbsent } from '../document/file-findings.ts';
import type { Diagnostic } from '../document/report-schema.ts';
import { placeHalf } from '../document/fingerprint.ts';
import type { Pause } from '../document/failure.ts';
import { FINGERPRINT_VERSION } from '../document/report-format.ts';
import type * as sarif from './sarif-log.ts';
import { type SarifPath, pathsIn } from './sarif-path.ts';

/** Without a path, a message or diagnostic is about the project. */
type Placed = { readonly path?: SarifPath | undefined };
export interface SarifMessage extends LintMessage, Placed {
  /** The region in characters of the file, in place of a line. */
  readonly offset?: number | undefined;
  readonly length?: number | undefined;
}
export type SarifRun = Awaited<ReturnType<typeof readRun>>;

const FAILED_RUN =
  'the linter did not run to its end (executionSuccessful is false); if it only found something, as SpotBugs 4.4 ' +
  'reports that, use --accept-failed-run';

const SEVERITIES = { none: 'info', note: 'info', warning: 'warning', error: 'error' } as const;

/** Arguments can make a message longer than the log. */
const EXPANDED_UNITS_MAX = 10_000;

/** `acceptFailedRun` is for linters that call a run unsuccessful because it found something. */
export async function readRun(run: sarif.Run, acceptFailedRun: boolean, pause: Pause) {
  const { tool, artifacts = [], invocations = [], columnKind } = run;
  const pathOf = pathsIn(run);
  const placesIn = placesOf(run, pathOf);
  const ruleOf = ruleFinder(tool);
  const standardIdsOf = standardIdReader(run);
  const levelOf = levelsOf(invocations, ruleOf);
  const rules = new Map<string, RuleFacts>();
  const weaknesses = new Map<sarif.Rule, readonly string[]>();
  const messagesOf = (result: sarif.Result): SarifMessage[] => {
    const { rule: reference, message, fixes, properties, taxa } = result;
    const id = reference?.id || result.ruleId;
    const { rule, component } = ruleOf({ ...reference, id, index: reference?.index ?? result.ruleIndex });
    const ruleId = result.ruleId || reference?.id || rule?.id || 'unknown';
    if (rule !== undefined && !rules.has(ruleId)) rules.set(ruleId, factsOf(rule));
    // Rules of two components may have one id, and different weaknesses.
    const ofRule = (rule && weaknesses.get(rule)) ?? standardIdsOf(rule?.properties, rule?.relationships);
    if (rule !== undefined) weaknesses.set(rule, ofRule);
    const own = taxa?.map((target) => ({ target }));
    const suggestion = properties?.suggestion ?? fixes?.[0]?.description?.text;
    const text = messageText(message, rule?.messageStrings, component.globalMessageStrings);
    const common = {
      ...{ ruleId, messageId: message?.id, severity: SEVERITIES[levelOf(result, rule)] },
      suggestion: typeof suggestion === 'string' ? suggestion : undefined,
      standardIds: [...new Set([...ofRule, ...standardIdsOf(properties, own)])],
    };
    const places = placesIn(result.locations);
    const fingerprint = places.length > 1 ? undefined : ownFingerprintOf(result);
    const whole = { ...common, message: text, content: fingerprint?.content };
    if (places.length === 0) return [whole];
    return places.map(({ names, path, region = {}, contextRegion }) => {
      if (path === undefined)
        return { ...common, messageId: undefined, message: `${text} (${names.join(', ')})`.trim() };
      const { startLine: line, startColumn: column, endLine = line, endColumn } = region;
      return {
        ...{ ...whole, line, column, endLine, endColumn, offset: region.charOffset, length: region.charLength },
        path: fingerprint?.isProject === true ? undefined : path,
        snippet: (region.snippet ?? contextRegion?.snippet)?.text,
      };
    });
  };
  const results = (run.results ?? []).filter(isFailure);
  const shown = results.filter((result) => !isSuppressed(result));
  const messages: SarifMessage[] = [];
  for (const result of shown) {
    for (const message of messagesOf(result)) messages.push(message);
    await pause();
  }
  return {
    tool: linterOf(tool.driver),
    messages,
    ...outcomeOf(run, pathOf, acceptFailedRun),
    /** The columns of the messages count code points in place of UTF-16 units. */
    countsCodePoints: columnKind === 'unicodeCodePoints',
    suppressed: results.length - shown.length,
    paths: artifacts.flatMap(({ location }) => pathOf(location) ?? []),
    rules,
  };
}

function linterOf({ name, semanticVersion, version, informationUri }: sarif.Component) {
  const known = semanticVersion || version || 'unknown';
  return withoutAbsent({ name: name || 'unknown', version: known, informationUri });
}

type Loose<T> = { readonly [Name in keyof T]: T[Name] | undefined };

/** By its index in the named component, or by its id: `CA1000/1` belongs to the rule `CA1000` (section 3.27.5). */
function ruleFinder(tool: sarif.Run['tool']) {
  const driver = componentOf(tool.driver);
  const extensions = (tool.extensions ?? []).map(componentOf);
  return ({ id, guid, index = -1, toolComponent: name = {} }: Loose<NonNullable<sarif.Result['rule']>>) => {
    const named = extensions[name.index ?? -1] ?? extensions.find((one) => isNamed(one, name)) ?? driver;
    const indexed = named.rules?.[index];
    if (indexed !== undefined) return { rule: indexed, component: named };
    for (const key of [guid, ...prefixesOf(id)])
      for (const component of [named, driver, ...extensions]) {
        const rule = component.byKey.get(key);
        if (rule !== undefined) return { rule, component };
      }
    return { rule: undefined, component: named };
  };
}

function levelsOf(invocations: readonly sarif.Invocation[], ruleOf: ReturnType<typeof ruleFinder>) {
  const overrides = invocations.map(({ ruleConfigurationOverrides: all = [] }) => {
    return new Map(all.map(({ configuration, descriptor = {} }) => [ruleOf(descriptor).rule, configuration?.level]));
  });
  return ({ level, kind = 'fail', provenance }: sarif.Result, rule: sarif.Rule | undefined) => {
    if (level !== undefined || kind !== 'fail') return level ?? 'none';
    // Most tools have one invocation and do not name it in their results.
    const override = overrides[provenance?.invocationIndex ?? (overrides.length === 1 ? 0 : -1)]?.get(rule);
    return rule === undefined ? 'warning' : (override ?? rule.defaultConfiguration?.level ?? 'warning');
  };
}

function errorsIn(invocation: sarif.Invocation): sarif.Notification[] {
  const { toolExecutionNotifications: running = [], toolConfigurationNotifications: settings = [] } = invocation;
  const { processStartFailureMessage: fault } = invocation;
  const errors = [...running, ...settings].filter(({ level }) => level === 'error');
  return fault === undefined ? errors : [{ message: { text: `the linter did not start: ${fault}` } }, ...errors];
}

/** A run that does not say that it ran has no outcome: the absence of results is not a pass. */
function outcomeOf(run: sarif.Run, pathOf: ReturnType<typeof pathsIn>, acceptFailedRun: boolean) {
  const { tool, invocations = [] } = run;
  const { name, globalMessageStrings: texts } = tool.driver;
  const diagnostics: (Diagnostic & Placed)[] = invocations.flatMap((one) => diagnosticsOf(one, pathOf, texts));
  const notes: string[] = [];
  const isFailed = (one: sarif.Invocation) => one.executionSuccessful === false && errorsIn(one).length === 0;
  const failures = invocations.filter(isFailed).length;
  if (failures > 0 && acceptFailedRun) notes.push(`the failed run of ${name} is accepted`);
  else if (failures > 0) diagnostics.push({ kind: 'rule-error', message: FAILED_RUN });
  if (run.results !== undefined) return { diagnostics, notes };
  if (invocations.some(({ executionSuccessful }) => executionSuccessful === true))
    notes.push(`the run of ${name} has no results; because its invocation was successful, it found nothing`);
  else {
    const message = `the run of ${name} has no results, and no invocation says that it was successful`;
    diagnostics.push({ kind: 'rule-error', message });
  }
  return { diagnostics, notes };
}

function diagnosticsOf(
  invocation: sarif.Invocation,
  pathOf: ReturnType<typeof pathsIn>,
  texts: sarif.Component['globalMessageStrings'],
): (Diagnostic & Placed)[] {
  return errorsIn(invocation).map(({ message, descriptor, associatedRule, locations }) => ({
    kind: descriptor?.id === 'parse-error' ? 'parse-error' : 'rule-error',
    message: messageText(message, texts) || 'no message',
    ...(associatedRule?.id === undefined ? {} : { ruleId: associatedRule.id }),
    path: pathOf(locations?.[0]?.physicalLocation?.artifactLocation),
  }));
}

function componentOf(component: sarif.Component) {
  const byKey = new Map<string | undefined, sarif.Rule>();
  for (const rule of component.rules ?? [])
    for (const key of [rule.id, rule.guid]) if (key && !byKey.has(key)) byKey.set(key, rule);
  return { ...component, byKey };
}

const isNamed = (component: sarif.Component, { name, guid }: Partial<sarif.Component>) =>
  (name !== undefined && component.name === name) || (guid !== undefined && component.guid === guid);

/** Returns the id, and the id without its last parts: `a/b/c`, `a/b`, `a`. */
function prefixesOf(id: string | undefined): string[] {
  const parts = id?.split('/') ?? [];
  return parts.map((_, index) => parts.slice(0, parts.length - index).join('/'));
}

/** Returns a function that lists each place of a result once: its file, or without one its logical place. */
function placesOf({ logicalLocations: known = [] }: sarif.Run, pathOf: ReturnType<typeof pathsIn>) {
  return (locations: NonNullable<sarif.Result['locations']> = []) => {
    const places = locations.flatMap(({ physicalLocation, logicalLocations = [] }) => {
      const names = logicalLocations.flatMap(({ index = -1, ...own }) => {
        const { fullyQualifiedName, name } = { ...known[index], ...own };
        return fullyQualifiedName ?? name ?? [];
      });
      const { artifactLocation, region, contextRegion } = physicalLocation ?? {};
      const { index = -1 } = artifactLocation ?? {};
      const path = pathOf(artifactLocation);
      // The list of artifacts may be in another file.
      if (path === undefined && index >= 0) names.push(`artifact ${index}`);
      return path === undefined && names.length === 0 ? [] : { names, path, region, contextRegion };
    });
    const keyOf = ({ names, path, region }: (typeof places)[number]) =>
      JSON.stringify([path === undefined ? names : posix.normalize(path.whole), { ...region, snippet: undefined }]);
    return [...Map.groupBy(places, keyOf).values()].flatMap(([first]) => first ?? []);
  };
}

/** A log that toollint wrote has the fingerprints of its report, which may have been computed with the source. */
function ownFingerprintOf({ partialFingerprints }: sarif.Result) {
  const text = String(partialFingerprints?.[FINGERPRINT_VERSION]);
  const [, content, place] = /^([0-9a-f]{32})([0-9a-f]{32}):\d+$/u.exec(text) ?? [];
  return content === undefined ? undefined : { content, isProject: place === placeHalf('project', '') };
}

const isFailure = ({ kind, baselineState }: sarif.Result) =>
  kind !== 'pass' && kind !== 'notApplicable' && baselineState !== 'absent';

/** One suppression that was rejected or is under review keeps the result (section 3.35.3). */
function isSuppressed({ suppressions = [] }: sarif.Result): boolean {
  // Drafts of the standard called the status a state.
  const isAccepted = ({ state = 'accepted', status = state }: (typeof suppressions)[number]) => status === 'accepted';
  return suppressions.length > 0 && suppressions.every(isAccepted);
}

/** Without a text of the message or of its id (section 3.11.7), the id and the arguments are the message. */
function messageText(
  { id, text, markdown, arguments: values = [] }: sarif.Message = {},
  ...tables: (Readonly<Record<string, sarif.Message>> | undefined)[]
): string {
  const texts = id === undefined ? [] : tables.map((table = {}) => (Object.hasOwn(table, id) ? table[id]?.text : ''));
  const pattern = text ?? texts.find(Boolean) ?? markdown;
  if (pattern === undefined) return [id, ...values].filter(Boolean).join(' ');
  return values.length === 0 ? pattern : expanded(pattern, values);
}

/** Replaces {0}, {1} by the arguments, and {{ and }} by one brace (section 3.11.5). */
function expanded(text: string, values: readonly string[]): string {
  let result = '';
  let end = 0;
  for (const { 0: part, 1: index, index: start } of text.matchAll(/\{(\d+)\}|\{\{|\}\}/gu)) {
    result += text.slice(end, start) + (index === undefined ? part.slice(1) : (values[Number(index)] ?? part));
    end = start + part.length;
    if (result.length > EXPANDED_UNITS_MAX) return `${result.slice(0, EXPANDED_UNITS_MAX)}…`;
  }
  return result + text.slice(end);
}

function factsOf({ helpUri = '', fullDescription, shortDescription }: sarif.Rule): RuleFacts {
  return {
    docsUrl: /^https?:\/\//iu.test(helpUri) ? helpUri : undefined,
    description: fullDescription?.text ?? shortDescription?.text,
  };
}

/** Tools name the weaknesses of a rule or of a result as tags, as a property, or as members of the taxonomy CWE. */
function standardIdReader({ taxonomies = [] }: sarif.Run) {
  const taxonOf = ruleFinder({
    driver: { name: '' },
    extensions: taxonomies.map(({ taxa = [], ...own }) => ({ ...own, rules: taxa })),
  });
  return ({ tags = [], cwe = [] }: sarif.Rule['properties'] = {}, taxa: sarif.Rule['relationships'] = []) => {
    const weaknesses = taxa.flatMap(({ target = {} }) => {
      const { rule, component } = taxonOf(target);
      const id = target.id ?? rule?.id;
      return (target.toolComponent?.name ?? component.name)?.toUpperCase() === 'CWE' ? [id, `CWE-${id}`] : [];
    });
    const numbers = [tags, cwe, weaknesses].flat().map((name) => /(?:^|\/)cwe[-/]0*(\d+)/iu.exec(String(name))?.[1]);
    return [...new Set(numbers)].flatMap((number) => (number === undefined ? [] : `CWE-${number}`));
  };
}

// Reads SARIF 2.1.0 (OASIS). A result without a level has the level of a configuration override or of its rule's
// default configuration (section 3.27.10). Absent and passed results are skipped, suppressed ones are counted.
import { type LintMessage, type RuleFacts, withoutAbsent } from '../document/file-findings.ts';
import type { Diagnostic, Severity } from '../document/report-schema.ts';
import * as sarif from './sarif-log.ts';
import { type ForeignPath, pathsIn } from './sarif-path.ts';

/** Without a path, a message or diagnostic is about the project. */
interface Placed {
  readonly path?: ForeignPath | undefined;
}
export type ForeignMessage = LintMessage & Placed;
export type ForeignRun = ReturnType<RunReader['read']>;

const SNIPPET_UNITS_MAX = 200;
/** Arguments can make a message longer than the log. */
const EXPANDED_UNITS_MAX = 10_000;

export function importSarif(text: string, refuse: sarif.Refuse): ForeignRun[] {
  return sarif.runsIn(text, refuse).map((run) => new RunReader(run).read());
}

type Loose<T> = { readonly [Name in keyof T]: T[Name] | undefined };

interface Component extends sarif.Component {
  readonly byKey: ReadonlyMap<string | undefined, sarif.Rule>;
}

class RunReader {
  readonly #run: sarif.Run;
  readonly #driver: Component;
  readonly #extensions: readonly Component[];
  readonly #pathOf: ReturnType<typeof pathsIn>;
  readonly #overrides: readonly ReadonlyMap<sarif.Rule, string>[];
  readonly #facts = new Map<string, RuleFacts>();

  constructor(run: sarif.Run) {
    this.#run = run;
    this.#driver = componentOf(run.tool.driver);
    this.#extensions = (run.tool.extensions ?? []).map(componentOf);
    this.#pathOf = pathsIn(run);
    this.#overrides = (run.invocations ?? []).map((invocation) => this.#overridesOf(invocation));
  }

  read() {
    const { tool, artifacts = [], invocations = [], columnKind } = this.#run;
    const { name, version, semanticVersion, informationUri } = tool.driver;
    const results = (this.#run.results ?? []).filter(isFailure);
    const shown = results.filter((result) => !isSuppressed(result));
    return {
      tool: withoutAbsent({
        name: name || 'unknown',
        version: semanticVersion || version || 'unknown',
        informationUri,
      }),
      messages: shown.map((result) => this.#message(result)),
      /** The columns of the messages count code points in place of UTF-16 units. */
      countsCodePoints: columnKind === 'unicodeCodePoints',
      suppressed: results.length - shown.length,
      paths: artifacts.flatMap(({ location }) => this.#pathOf(location) ?? []),
      diagnostics: invocations.flatMap((invocation) => this.#diagnosticsOf(invocation)),
      rules: this.#facts,
    };
  }

  #message(result: sarif.Result): ForeignMessage {
    const { rule: reference, message, locations, fixes, properties } = result;
    const id = reference?.id || result.ruleId;
    const { rule, component } = this.#ruleOf({ ...reference, id, index: reference?.index ?? result.ruleIndex });
    const ruleId = result.ruleId || reference?.id || rule?.id || 'unknown';
    if (rule !== undefined && !this.#facts.has(ruleId)) this.#facts.set(ruleId, factsOf(rule));
    const { artifactLocation, region = {}, contextRegion } = locations?.[0]?.physicalLocation ?? {};
    const { startLine: line, startColumn, endLine = line, endColumn } = region;
    const snippet = (region.snippet ?? contextRegion?.snippet)?.text;
    const suggestion = properties?.suggestion ?? fixes?.[0]?.description?.text;
    return {
      ruleId,
      severity: severityOf(this.#levelOf(result, rule)),
      message: messageText(message, rule?.messageStrings, component.globalMessageStrings),
      messageId: message?.id,
      path: this.#pathOf(artifactLocation),
      ...(line === undefined ? {} : { line, column: startColumn, endLine, endColumn }),
      snippet: snippet?.trim().split('\n')[0]?.slice(0, SNIPPET_UNITS_MAX).toWellFormed(),
      suggestion: typeof suggestion === 'string' ? suggestion : undefined,
    };
  }

  /** By its index in the named component, or by its id: `CA1000/1` belongs to the rule `CA1000` (section 3.27.5). */
  #ruleOf({ id, guid, index = -1, toolComponent }: Loose<sarif.RuleReference>): {
    rule?: sarif.Rule;
    component: Component;
  } {
    const at = toolComponent?.index ?? this.#extensions.findIndex((one) => isNamed(one, toolComponent ?? {}));
    const named = this.#extensions[at] ?? this.#driver;
    const indexed = named.rules?.[index];
    if (indexed !== undefined) return { rule: indexed, component: named };
    for (const key of [guid, ...prefixesOf(id)])
      for (const component of [named, this.#driver, ...this.#extensions]) {
        const rule = component.byKey.get(key);
        if (rule !== undefined) return { rule, component };
      }
    return { component: named };
  }

  #overridesOf({ ruleConfigurationOverrides = [] }: sarif.Invocation): ReadonlyMap<sarif.Rule, string> {
    return new Map(
      ruleConfigurationOverrides.flatMap(({ configuration, descriptor }): [sarif.Rule, string][] => {
        const { rule } = descriptor === undefined ? {} : this.#ruleOf(descriptor);
        return rule === undefined || configuration?.level === undefined ? [] : [[rule, configuration.level]];
      }),
    );
  }

  #levelOf({ level, kind = 'fail', provenance }: sarif.Result, rule: sarif.Rule | undefined): string {
    if (level !== undefined) return level;
    if (kind !== 'fail') return 'none';
    if (rule === undefined) return 'warning';
    // Most tools have one invocation and do not name it in their results.
    const overrides = this.#overrides[provenance?.invocationIndex ?? (this.#overrides.length === 1 ? 0 : -1)];
    return overrides?.get(rule) ?? rule.defaultConfiguration?.level ?? 'warning';
  }

  #diagnosticsOf(invocation: sarif.Invocation): (Diagnostic & Placed)[] {
    const { toolExecutionNotifications = [], toolConfigurationNotifications = [] } = invocation;
    const failures = [...toolExecutionNotifications, ...toolConfigurationNotifications].filter(
      ({ level }) => level === 'error',
    );
    if (failures.length === 0 && invocation.executionSuccessful === false)
      return [{ kind: 'rule-error', message: 'the linter did not run to its end' }];
    return failures.map(({ message, descriptor, associatedRule, locations }) => ({
      kind: descriptor?.id === 'parse-error' ? 'parse-error' : 'rule-error',
      message: messageText(message, this.#driver.globalMessageStrings) || 'no message',
      ...(associatedRule?.id === undefined ? {} : { ruleId: associatedRule.id }),
      path: this.#pathOf(locations?.[0]?.physicalLocation?.artifactLocation),
    }));
  }
}

function componentOf(component: sarif.Component): Component {
  const byKey = new Map<string | undefined, sarif.Rule>();
  for (const rule of component.rules ?? [])
    for (const key of [rule.id, rule.guid]) if (key && !byKey.has(key)) byKey.set(key, rule);
  return { ...component, byKey };
}

function isNamed(component: sarif.Component, { name, guid }: { name?: string; guid?: string }): boolean {
  return (name !== undefined && component.name === name) || (guid !== undefined && component.guid === guid);
}

/** Returns the id, and the id without its last parts: `a/b/c`, `a/b`, `a`. */
function prefixesOf(id: string | undefined): string[] {
  const parts = id?.split('/') ?? [];
  return parts.map((_, index) => parts.slice(0, parts.length - index).join('/'));
}

function severityOf(level: string): Severity {
  return level === 'note' || level === 'none' ? 'info' : level === 'error' ? 'error' : 'warning';
}

function isFailure({ kind, baselineState }: sarif.Result): boolean {
  return kind !== 'pass' && kind !== 'notApplicable' && baselineState !== 'absent';
}

/** One suppression that was rejected or is under review keeps the result (section 3.35.3). */
function isSuppressed({ suppressions = [] }: sarif.Result): boolean {
  return suppressions.length > 0 && suppressions.every(({ status = 'accepted' }) => status === 'accepted');
}

/** Returns the text of the message, or the text that its id has in one of the tables (section 3.11.7). */
function messageText(
  { id, text, markdown, arguments: values = [] }: sarif.Message = {},
  ...tables: (Readonly<Record<string, sarif.Message>> | undefined)[]
): string {
  const known = id === undefined ? [] : tables.map((table = {}) => (Object.hasOwn(table, id) ? table[id]?.text : ''));
  const pattern = text ?? known.find(Boolean) ?? markdown ?? '';
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

function factsOf({ helpUri, properties, fullDescription, shortDescription }: sarif.Rule): RuleFacts {
  const tags = Array.isArray(properties?.tags) ? (properties.tags as unknown[]) : [];
  return {
    docsUrl: helpUri !== undefined && /^https?:\/\//iu.test(helpUri) ? helpUri : undefined,
    description: fullDescription?.text ?? shortDescription?.text,
    standardIds: tags.flatMap((tag) => {
      const id = /(?:^|\/)cwe[-/]0*(\d+)/iu.exec(String(tag))?.[1];
      return id === undefined ? [] : `CWE-${id}`;
    }),
  };
}

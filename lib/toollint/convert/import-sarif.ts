// Reads SARIF 2.1.0 (OASIS). A result without a level has the level of a configuration override or of its rule's
// default configuration (section 3.27.10). Absent and passed results are skipped, suppressed ones are counted.
import type { LintMessage, RuleFacts } from '../document/file-findings.ts';
import type { Linter } from '../document/extension.ts';
import type { Diagnostic, Severity } from '../document/report-schema.ts';
import { looseJson } from '../document/strict-json.ts';
import { type ForeignPath, pathsIn } from './sarif-path.ts';
import { type Refuse, SarifObject } from './sarif-reader.ts';

/** A result without a path is about the project. */
export interface ForeignMessage extends LintMessage {
  readonly path?: ForeignPath | undefined;
  readonly countsCodePoints: boolean;
}

export interface ForeignDiagnostic {
  readonly diagnostic: Diagnostic;
  readonly path?: ForeignPath | undefined;
}

export interface ForeignRun {
  readonly tool: Linter;
  readonly messages: readonly ForeignMessage[];
  readonly suppressed: number;
  readonly paths: readonly ForeignPath[];
  readonly diagnostics: readonly ForeignDiagnostic[];
  readonly rules: ReadonlyMap<string, RuleFacts>;
}

const SEVERITIES: ReadonlyMap<unknown, Severity> = new Map([
  ['error', 'error'],
  ['warning', 'warning'],
  ['note', 'info'],
  ['none', 'info'],
]);

const SNIPPET_UNITS_MAX = 200;
/** Arguments can make a message longer than the log. */
const EXPANDED_UNITS_MAX = 10_000;

export function importSarif(text: string, refuse: Refuse): ForeignRun[] {
  const log = new SarifObject(looseJson(text, refuse), refuse);
  const version = log.any('version');
  if (version !== '2.1.0') log.refuse('version', `expected "2.1.0", found ${JSON.stringify(version)}`);
  if (!log.names().includes('runs')) log.refuse('runs', 'the member is missing');
  for (const inline of log.objects('inlineExternalProperties'))
    if (inline.objects('results').length > 0) inline.refuse('results', 'results outside their run are not supported');
  return log.objects('runs').map((run) => new RunReader(run).read());
}

type Descriptor = SarifObject;

/** The rules of the driver or of an extension, by id, guid and index. */
interface Component {
  readonly rules: readonly Descriptor[];
  readonly byId: ReadonlyMap<string | undefined, Descriptor>;
  readonly texts: SarifObject | undefined;
}

class RunReader {
  readonly #run: SarifObject;
  readonly #driver: SarifObject;
  readonly #own: Component;
  readonly #components: readonly Component[];
  readonly #extensions: readonly SarifObject[];
  readonly #pathOf: (location: SarifObject | undefined) => ForeignPath | undefined;
  readonly #invocations: readonly SarifObject[];
  readonly #overrides: readonly ReadonlyMap<Descriptor, string>[];
  readonly #rules = new Map<string, RuleFacts>();

  constructor(run: SarifObject) {
    this.#run = run;
    const tool = run.needed('tool');
    this.#driver = tool.needed('driver');
    this.#extensions = tool.objects('extensions');
    this.#own = componentOf(this.#driver);
    this.#components = this.#extensions.map(componentOf);
    this.#pathOf = pathsIn(run);
    this.#invocations = run.objects('invocations');
    this.#overrides = this.#invocations.map((invocation) => this.#overridesOf(invocation));
  }

  read(): ForeignRun {
    const elsewhere = this.#run.object('externalPropertyFileReferences');
    for (const name of ['results', 'invocations'])
      if (elsewhere !== undefined && elsewhere.objects(name).length > 0)
        elsewhere.refuse(name, `the ${name} are in another file, which is not read`);
    const results = this.#run.objects('results').filter(isFailure);
    const shown = results.filter((result) => !isSuppressed(result));
    const name = this.#driver.text('name') ?? this.#driver.refuse('name', 'the member is missing');
    const informationUri = this.#driver.text('informationUri');
    return {
      tool: {
        name: name || 'unknown',
        version: this.#driver.text('semanticVersion') || this.#driver.text('version') || 'unknown',
        ...(informationUri === undefined ? {} : { informationUri }),
      },
      messages: shown.map((result) => this.#message(result)),
      suppressed: results.length - shown.length,
      paths: this.#run.objects('artifacts').flatMap((artifact) => this.#pathOf(artifact.object('location')) ?? []),
      diagnostics: this.#invocations.flatMap((invocation) => this.#diagnosticsOf(invocation)),
      rules: this.#rules,
    };
  }

  #message(result: SarifObject): ForeignMessage {
    const { rule, component } = this.#ruleOf(result, result.object('rule'));
    const given = result.text('ruleId') || result.object('rule')?.text('id');
    const ruleId = given || rule?.text('id') || 'unknown';
    if (rule !== undefined && !this.#rules.has(ruleId)) this.#rules.set(ruleId, factsOf(rule));
    const physical = result.objects('locations')[0]?.object('physicalLocation');
    const region = physical?.object('region');
    const line = region?.number('startLine');
    const snippet = region?.object('snippet') ?? physical?.object('contextRegion')?.object('snippet');
    const suggestion =
      result.object('properties')?.any('suggestion') ?? result.objects('fixes')[0]?.object('description')?.text('text');
    const message = result.object('message');
    return {
      ruleId,
      severity: SEVERITIES.get(this.#levelOf(result, rule)) ?? 'warning',
      message: messageText(message, [rule?.object('messageStrings'), component.texts]),
      messageId: message?.text('id'),
      path: this.#pathOf(physical?.object('artifactLocation')),
      line,
      column: line === undefined ? undefined : region?.number('startColumn'),
      endLine: line === undefined ? undefined : (region?.number('endLine') ?? line),
      endColumn: line === undefined ? undefined : region?.number('endColumn'),
      countsCodePoints: this.#run.text('columnKind') === 'unicodeCodePoints',
      snippet: snippet?.text('text')?.trim().split('\n')[0]?.slice(0, SNIPPET_UNITS_MAX).toWellFormed(),
      suggestion: typeof suggestion === 'string' ? suggestion : undefined,
    };
  }

  /**
   * Finds the rule by its index in the named component, or by its id. The id `CA1000/1` belongs to the rule `CA1000`
   * (section 3.27.5).
   */
  #ruleOf(owner: SarifObject, reference: SarifObject | undefined): { rule?: Descriptor; component: Component } {
    const named = this.#componentOf(reference?.object('toolComponent'));
    const component = named ?? this.#own;
    const index = reference?.number('index') ?? owner.number('ruleIndex') ?? -1;
    const indexed = component.rules[index];
    if (indexed !== undefined) return { rule: indexed, component };
    const id = reference?.text('id') || owner.text('ruleId');
    const places = [component, this.#own, ...this.#components];
    for (const key of [reference?.text('guid'), ...prefixesOf(id)]) {
      const place = key === undefined ? undefined : places.find(({ byId }) => byId.has(key));
      const rule = place?.byId.get(key);
      if (place !== undefined && rule !== undefined) return { rule, component: place };
    }
    return { component };
  }

  #componentOf(reference: SarifObject | undefined): Component | undefined {
    if (reference === undefined) return undefined;
    const [name, guid] = [reference.text('name'), reference.text('guid')];
    const at =
      reference.number('index') ??
      this.#extensions.findIndex(
        (one) => (name !== undefined && one.text('name') === name) || (guid !== undefined && one.text('guid') === guid),
      );
    return at < 0 ? undefined : this.#components[at];
  }

  #overridesOf(invocation: SarifObject): ReadonlyMap<Descriptor, string> {
    return new Map(
      invocation.objects('ruleConfigurationOverrides').flatMap((override): [Descriptor, string][] => {
        const level = override.object('configuration')?.text('level');
        const reference = override.object('descriptor');
        const { rule } = reference === undefined ? {} : this.#ruleOf(reference, reference);
        return rule === undefined || level === undefined ? [] : [[rule, level]];
      }),
    );
  }

  #levelOf(result: SarifObject, rule: Descriptor | undefined): string {
    const level = result.text('level');
    if (level !== undefined) return level;
    if ((result.text('kind') ?? 'fail') !== 'fail') return 'none';
    if (rule === undefined) return 'warning';
    // Most tools have one invocation and do not name it in their results.
    const only = this.#overrides.length === 1 ? 0 : -1;
    const overrides = this.#overrides[result.object('provenance')?.number('invocationIndex') ?? only];
    return overrides?.get(rule) ?? rule.object('defaultConfiguration')?.text('level') ?? 'warning';
  }

  #diagnosticsOf(invocation: SarifObject): ForeignDiagnostic[] {
    const failures = ['toolExecutionNotifications', 'toolConfigurationNotifications']
      .flatMap((name) => invocation.objects(name))
      .filter((notification) => notification.text('level') === 'error');
    if (failures.length === 0 && invocation.any('executionSuccessful') !== false) return [];
    if (failures.length === 0)
      return [{ diagnostic: { kind: 'rule-error', message: 'the linter did not run to its end' } }];
    return failures.map((failure) => {
      const kind = failure.object('descriptor')?.text('id') === 'parse-error' ? 'parse-error' : 'rule-error';
      const ruleId = failure.object('associatedRule')?.text('id');
      const message = messageText(failure.object('message'), [this.#own.texts]) || 'no message';
      const location = failure.objects('locations')[0]?.object('physicalLocation')?.object('artifactLocation');
      const diagnostic: Diagnostic = { kind, message, ...(ruleId === undefined ? {} : { ruleId }) };
      return { diagnostic, path: this.#pathOf(location) };
    });
  }
}

function componentOf(component: SarifObject): Component {
  const rules = component.objects('rules');
  const byId = new Map<string | undefined, Descriptor>();
  for (const rule of rules)
    for (const key of [rule.text('id'), rule.text('guid')]) if (key && !byId.has(key)) byId.set(key, rule);
  return { rules, byId, texts: component.object('globalMessageStrings') };
}

/** Returns the id, and the id without its last parts: `a/b/c`, `a/b`, `a`. */
function prefixesOf(id: string | undefined): string[] {
  const parts = id?.split('/') ?? [];
  return parts.map((_, index) => parts.slice(0, parts.length - index).join('/'));
}

function isFailure(result: SarifObject): boolean {
  const kind = result.text('kind');
  return kind !== 'pass' && kind !== 'notApplicable' && result.text('baselineState') !== 'absent';
}

/** A suppression applies unless it was rejected or is under review (section 3.35.3). */
function isSuppressed(result: SarifObject): boolean {
  return result.objects('suppressions').some((one) => (one.text('status') ?? 'accepted') === 'accepted');
}

/** Returns the text of the message, or the text that its id has in one of the tables (section 3.11.7). */
function messageText(message: SarifObject | undefined, tables: readonly (SarifObject | undefined)[]): string {
  if (message === undefined) return '';
  const id = message.text('id');
  const known = id === undefined ? undefined : tables.map((table) => table?.object(id)?.text('text')).find(Boolean);
  const text = message.text('text') ?? known ?? message.text('markdown') ?? '';
  const values = message.texts('arguments');
  return values.length === 0 ? text : expanded(text, values);
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

function factsOf(rule: Descriptor): RuleFacts {
  const helpUri = rule.text('helpUri');
  const tags = rule.object('properties')?.any('tags');
  return {
    docsUrl: helpUri !== undefined && /^https?:\/\//iu.test(helpUri) ? helpUri : undefined,
    description: rule.object('fullDescription')?.text('text') ?? rule.object('shortDescription')?.text('text'),
    standardIds: (Array.isArray(tags) ? (tags as unknown[]) : [])
      .flatMap((tag) => /(?:^|\/)cwe[-/]0*(\d+)/iu.exec(String(tag))?.[1] ?? [])
      .map((id) => `CWE-${id}`),
  };
}

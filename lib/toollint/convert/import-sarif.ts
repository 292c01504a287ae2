// Reads SARIF 2.1.0 (OASIS). A result without a level has the level of its rule's default configuration (section
// 3.27.10). Suppressed, absent and passed results are skipped. A path is resolved with its base id (section 3.4.4);
// an unknown base id stands for the root.
import type { ArtifactLocation, ReportingDescriptor, Result, Run, ToolComponent } from 'sarif';
import type { LintMessage, RuleFacts } from '../document/file-findings.ts';
import type { Diagnostic, Severity } from '../document/report-schema.ts';
import { isObject, looseJson } from '../document/strict-json.ts';

export type Refuse = (fault: string) => never;

/** A result without a path is about the project. */
export interface ForeignMessage extends LintMessage {
  /** The path as the linter wrote it: relative to the root, absolute, or a file URL. */
  readonly path?: string | undefined;
  readonly countsCodePoints?: boolean;
}

export interface ForeignReport {
  readonly tool: {
    readonly name: string;
    readonly version?: string | undefined;
    readonly informationUri?: string | undefined;
  };
  readonly messages: readonly ForeignMessage[];
  readonly paths: readonly string[];
  readonly diagnostics: readonly Diagnostic[];
  readonly rules: ReadonlyMap<string, RuleFacts>;
}

/** Returns an empty object for any value that is not an object. */
const recordOf = (value: unknown): Readonly<Record<string, unknown>> => (isObject(value) ? value : {});

const SEVERITIES: ReadonlyMap<unknown, Severity> = new Map([
  ['error', 'error'],
  ['warning', 'warning'],
  ['note', 'info'],
  ['none', 'info'],
]);

/** Refuses a log with runs of different tools. */
export function importSarif(text: string, refuse: Refuse): ForeignReport {
  const log = recordOf(looseJson(text, refuse));
  if (log['version'] !== '2.1.0') refuse(`expected version 2.1.0, found ${JSON.stringify(log['version'])}`);
  if (!Array.isArray(log['runs'])) return refuse('there are no runs');
  const runs = log['runs'] as Run[];
  const reports = runs.map((run, index) => {
    if (typeof recordOf(recordOf(recordOf(run)['tool'])['driver'])['name'] !== 'string')
      return refuse(`/runs/${index}: there is no tool`);
    try {
      return new RunReader(run, refuse).report();
    } catch (cause) {
      // The file may not have the types that this code assumes.
      if (cause instanceof TypeError) return refuse(`/runs/${index}: ${cause.message}`);
      throw cause;
    }
  });
  const [first] = reports;
  if (first === undefined) return refuse('there are no runs');
  const other = reports.find(({ tool }) => tool.name !== first.tool.name);
  if (other !== undefined) refuse(`it has runs of ${first.tool.name} and of ${other.tool.name}`);
  return {
    tool: first.tool,
    messages: reports.flatMap(({ messages }) => messages),
    paths: reports.flatMap(({ paths }) => paths),
    diagnostics: reports.flatMap(({ diagnostics }) => diagnostics),
    rules: new Map(reports.flatMap(({ rules }) => [...rules])),
  };
}

class RunReader {
  readonly #run: Run;
  readonly #refuse: Refuse;
  readonly #rules = new Map<string, RuleFacts>();

  constructor(run: Run, refuse: Refuse) {
    this.#run = run;
    this.#refuse = refuse;
  }

  report(): ForeignReport {
    const { driver } = this.#run.tool;
    const { artifacts = [], results = [] } = this.#run;
    const messages = (results ?? []).filter(isCounted).map((result) => this.#message(result));
    return {
      tool: {
        name: driver.name,
        version: driver.semanticVersion ?? driver.version,
        informationUri: driver.informationUri,
      },
      messages,
      paths: artifacts.flatMap(({ location }) => this.#path(location) ?? []),
      diagnostics: this.#diagnostics(),
      rules: this.#rules,
    };
  }

  #message(result: Result): ForeignMessage {
    const rule = this.#ruleOf(result);
    const ruleId = result.ruleId ?? result.rule?.id ?? rule?.id ?? 'unknown';
    if (rule !== undefined && !this.#rules.has(ruleId)) this.#rules.set(ruleId, factsOf(rule));
    const { physicalLocation } = result.locations?.[0] ?? {};
    const region = physicalLocation?.region;
    const snippet = (region?.snippet ?? physicalLocation?.contextRegion?.snippet)?.text;
    const suggestion: unknown = result.properties?.['suggestion'] ?? result.fixes?.[0]?.description?.text;
    return {
      ruleId,
      severity: SEVERITIES.get(levelOf(result, rule)) ?? 'warning',
      message: messageOf(result, rule),
      messageId: result.message.id,
      path: this.#path(physicalLocation?.artifactLocation),
      line: region?.startLine,
      column: region?.startLine === undefined ? undefined : region.startColumn,
      endLine: region?.startLine === undefined ? undefined : (region.endLine ?? region.startLine),
      endColumn: region?.startLine === undefined ? undefined : region.endColumn,
      countsCodePoints: this.#run.columnKind === 'unicodeCodePoints',
      snippet: snippet?.trim().split('\n')[0]?.slice(0, 200).toWellFormed(),
      suggestion: typeof suggestion === 'string' ? suggestion : undefined,
    };
  }

  /**
   * Finds the rule by its index in the named component, or by its id. The id `CA1000/1` belongs to the rule `CA1000`
   * (section 3.27.5).
   */
  #ruleOf({ rule: reference, ruleIndex, ruleId }: Result): ReportingDescriptor | undefined {
    const { driver, extensions = [] } = this.#run.tool;
    const { toolComponent, index = ruleIndex ?? -1, id = ruleId } = reference ?? {};
    const named: ToolComponent | undefined =
      toolComponent?.index === undefined
        ? extensions.find(
            ({ name, guid }) => name === (toolComponent?.name ?? '') || guid === (toolComponent?.guid ?? ''),
          )
        : extensions[toolComponent.index];
    const component = named ?? driver;
    if (index >= 0) return component.rules?.[index];
    const all = [component, driver, ...extensions].flatMap(({ rules = [] }) => rules);
    return all.find((one) => one.id === id) ?? all.find((one) => id?.startsWith(`${one.id}/`) === true);
  }

  #path(location: ArtifactLocation | undefined): string | undefined {
    if (location === undefined) return undefined;
    const { artifacts = [] } = this.#run;
    const given = location.uri === undefined ? artifacts[location.index ?? -1]?.location : location;
    if (given?.uri === undefined) return undefined;
    const whole = `${this.#base(given.uriBaseId)}${given.uri}`;
    if (/^[A-Za-z][A-Za-z0-9+.-]*:/u.test(whole)) return whole;
    try {
      return decodeURIComponent(whole);
    } catch {
      return this.#refuse(`not a URI: ${whole}`);
    }
  }

  #base(id: string | undefined, seen: readonly string[] = []): string {
    const base = id === undefined || seen.includes(id) ? undefined : this.#run.originalUriBaseIds?.[id];
    if (id === undefined || base === undefined) return '';
    const uri = base.uri ?? '';
    const whole = uri === '' || uri.endsWith('/') ? uri : `${uri}/`;
    return `${this.#base(base.uriBaseId, [...seen, id])}${whole}`;
  }

  #diagnostics(): Diagnostic[] {
    return (this.#run.invocations ?? []).flatMap((invocation) => {
      const { toolExecutionNotifications = [], toolConfigurationNotifications = [] } = invocation;
      const failures = [...toolExecutionNotifications, ...toolConfigurationNotifications].filter(
        ({ level }) => level === 'error',
      );
      if (failures.length === 0 && invocation.executionSuccessful !== false) return [];
      if (failures.length === 0) return [{ kind: 'rule-error', message: 'the linter did not run to its end' }];
      return failures.map(({ descriptor, associatedRule, message, locations }): Diagnostic => {
        const kind = descriptor?.id === 'parse-error' ? 'parse-error' : 'rule-error';
        const path = this.#path(locations?.[0]?.physicalLocation?.artifactLocation);
        return {
          kind,
          message: message.text ?? message.id ?? 'no message',
          ...(associatedRule?.id === undefined ? {} : { ruleId: associatedRule.id }),
          ...(path === undefined ? {} : { relativePath: path }),
        };
      });
    });
  }
}

/** A suppression applies unless it was rejected or is under review (section 3.35.3). */
function isCounted({ kind = 'fail', baselineState, suppressions = [] }: Result): boolean {
  const isSuppressed = suppressions.some(({ status = 'accepted' }) => status === 'accepted');
  return kind !== 'pass' && kind !== 'notApplicable' && baselineState !== 'absent' && !isSuppressed;
}

function levelOf({ level, kind = 'fail' }: Result, rule: ReportingDescriptor | undefined): string {
  if (level !== undefined) return level;
  return kind === 'fail' ? (rule?.defaultConfiguration?.level ?? 'warning') : 'none';
}

/** Returns the message of the result, or of its rule, with arguments for {0}, {1} (section 3.11.5). */
function messageOf({ message }: Result, rule: ReportingDescriptor | undefined): string {
  const text = message.text ?? rule?.messageStrings?.[message.id ?? '']?.text ?? message.markdown ?? '';
  return text.replace(/\{(\d+)\}/gu, (placeholder, index) => message.arguments?.[Number(index)] ?? placeholder);
}

function factsOf({ helpUri, shortDescription, fullDescription, properties }: ReportingDescriptor): RuleFacts {
  const tags: readonly unknown[] = properties?.tags ?? [];
  return {
    docsUrl: helpUri !== undefined && /^https?:\/\//iu.test(helpUri) ? helpUri : undefined,
    description: fullDescription?.text ?? shortDescription?.text,
    standardIds: tags
      .flatMap((tag) => /(?:^|\/)cwe[-/]0*(\d+)/iu.exec(String(tag))?.[1] ?? [])
      .map((id) => `CWE-${id}`),
  };
}

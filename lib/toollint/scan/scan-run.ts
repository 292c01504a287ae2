// The work of one scan, file by file: lint, compare with the baseline, count for the gate, filter, number, keep; then
// the report's header. The order of these steps is the order in `take` and `outcome`.
import type { Baseline } from '../compare/baseline.ts';
import { PARSE_ERROR_RULE } from '../document/finding-consistency.ts';
import { numberOccurrences } from '../document/finding-order.ts';
import { pathFault, sortedUnique } from '../document/report-path.ts';
import { SCHEMA_VERSION } from '../document/report-format.ts';
import type { Finding, ReportHeader, Severity } from '../document/report-schema.ts';
import { TOOL_NAME, TOOL_VERSION } from '../document/tool-identity.ts';
import { evaluateGate, GateTally } from '../gate/gate.ts';
import { updatedBaseline } from './baseline-update.ts';
import { fileFindings, withoutDirectives } from './file-findings.ts';
import type { FoundFile } from './file-search.ts';
import { FindingSpool } from './finding-spool.ts';
import { lintedFile } from './known-file.ts';
import type { EngineMessage, LintEngine } from './lint-engine.ts';
import type { PathPrefix } from './path-prefix.ts';
import type { ResultCache } from './result-cache.ts';
import { type AbsentFiles, type Looked, ScanBaseline } from './scan-baseline.ts';
import { ScanDiagnostics } from './scan-diagnostics.ts';
import type { ScanOptions, ScanOutcome } from './scan-options.ts';
import { readSource } from './source-file.ts';
import { suppress, type Suppressions } from './suppressions.ts';

interface ScanRunParts {
  readonly options: ScanOptions;
  readonly root: string;
  readonly prefix: PathPrefix;
  readonly engine: LintEngine;
  readonly baseline: Baseline | undefined;
  readonly cache: ResultCache | undefined;
  readonly suppressions: Suppressions;
}

/** What was learnt of one file. */
interface TakenFile {
  readonly messages: readonly EngineMessage[];
  readonly suppressed: readonly EngineMessage[];
  /** undefined: the file could not be looked at. */
  readonly ran: ReadonlySet<string> | undefined;
}

/** Takes the files in the order of their paths. The caller closes `spool` when it does not take the outcome. */
export class ScanRun {
  readonly spool = new FindingSpool();
  readonly reportedRuleIds = new Set<string>();

  readonly #parts: ScanRunParts;
  readonly #baseline: ScanBaseline | undefined;
  readonly #roots: readonly string[];
  readonly #diagnostics: ScanDiagnostics;
  readonly #tally = new GateTally();
  readonly #listed: Record<Severity, number> = { error: 0, warning: 0, info: 0 };
  #found = 0;

  constructor(parts: ScanRunParts) {
    const { baseline, options, root } = parts;
    this.#parts = parts;
    this.#baseline = baseline === undefined ? undefined : new ScanBaseline(baseline, options.updateBaseline === true);
    const folders = sortedUnique([root, options.root]).filter((folder) => folder.startsWith('/'));
    this.#roots = folders.sort((a, b) => b.length - a.length);
    this.#diagnostics = new ScanDiagnostics(this.#roots);
  }

  /** Findings so far, all of them. */
  get found(): number {
    return this.#found;
  }

  /** One file, from its text to the spool. */
  async take(file: FoundFile): Promise<void> {
    const path = this.#parts.prefix.of(file.path);
    const fault = pathFault(path);
    if (fault !== undefined) {
      this.#diagnostics.parseError(path, `the file name ${JSON.stringify(path)} cannot stand in a report: ${fault}`);
      return;
    }
    const source = file.fault === undefined ? readSource(file.absolute) : { fault: file.fault };
    const text = 'text' in source ? source.text : '';
    const taken =
      'text' in source
        ? await this.#lint(file, path, text)
        : this.#unparsed(path, `the file cannot be read: ${source.fault}`);
    const findings = this.#findings(path, text, taken.messages);
    this.#found += findings.length;
    const counting = this.#baseline?.newFindings(path, findings, this.#lookedAt(path, text, taken)) ?? findings;
    for (const finding of counting) this.#tally.add(finding);
    await this.#list(counting);
  }

  #findings(path: string, text: string, messages: readonly EngineMessage[]): Finding[] {
    const { engine, options } = this.#parts;
    const factsOf = (ruleId: string) => engine.factsOf(ruleId);
    return fileFindings({ path, text, messages, roots: this.#roots, snippets: options.snippets !== false, factsOf });
  }

  #lookedAt(path: string, text: string, { ran, suppressed }: TakenFile): Looked | undefined {
    if (ran === undefined || this.#baseline?.knows(path) !== true) return undefined;
    return { ran, suppressed: this.#findings(path, withoutDirectives(text), suppressed) };
  }

  async #lint(file: FoundFile, path: string, text: string): Promise<TakenFile> {
    const { engine, cache, suppressions } = this.#parts;
    const linted = await lintedFile(file, text, engine, cache);
    for (const crash of linted.crashes) this.#diagnostics.ruleError(path, crash);
    if (linted.failure !== undefined) return this.#unparsed(path, linted.failure);
    const fatal = linted.messages.find((message) => message.fatal);
    if (fatal !== undefined) this.#diagnostics.parseError(path, fatal.message);
    for (const { ruleId } of linted.messages) if (ruleId !== null && ruleId !== '') this.reportedRuleIds.add(ruleId);
    const { messages, suppressed } = suppress(linted.messages, suppressions[file.path]);
    return {
      messages,
      suppressed: [...linted.suppressed, ...suppressed],
      ran: fatal === undefined ? new Set(linted.ran) : undefined,
    };
  }

  #unparsed(path: string, message: string): TakenFile {
    this.#diagnostics.parseError(path, message);
    return {
      messages: [{ ruleId: PARSE_ERROR_RULE, severity: 'error', message, fatal: true }],
      suppressed: [],
      ran: undefined,
    };
  }

  /** The quiet filter, then the numbers. */
  async #list(findings: readonly Finding[]): Promise<void> {
    const quiet = this.#parts.options.quiet === true;
    const shown = quiet ? findings.filter(({ severity }) => severity === 'error') : findings;
    numberOccurrences(shown);
    for (const { severity } of shown) this.#listed[severity] += 1;
    await this.spool.add(shown);
  }

  /** The report, when all files have been taken. */
  async outcome(scanned: ReportHeader['scan'], totalFiles: number, absent: AbsentFiles): Promise<ScanOutcome> {
    const { engine, options, baseline } = this.#parts;
    const execution = this.#diagnostics.execution(totalFiles, engine.givenUp);
    const quiet = options.quiet === true;
    const counts = await this.#baseline?.counts(absent);
    const notVerifiable = this.#baseline?.notVerifiable.length ?? 0;
    const notes = [...engine.notes, ...(baseline?.notes ?? [])];
    if (notVerifiable > 0) notes.push(`${notVerifiable} baseline findings are gone but not verifiably fixed`);
    const { error, warning, info } = this.#listed;
    const tool = { name: TOOL_NAME, version: TOOL_VERSION };
    const subject = {
      tally: this.#tally,
      baseline: counts,
      execution,
      totalFiles,
      quiet: false,
      notVerifiable,
      scan: scanned,
      tool,
    };
    const header: ReportHeader = {
      schemaVersion: SCHEMA_VERSION,
      tool,
      execution,
      scan: scanned,
      selection: counts === undefined ? { quiet } : { quiet, baseline: counts },
      gate: evaluateGate(options.gate, subject),
      summary: {
        totalFiles,
        totalIssues: error + warning + info,
        parseErrors: execution.diagnostics.filter(({ kind }) => kind === 'parse-error').length,
        ruleErrors: execution.diagnostics.filter(({ kind }) => kind === 'rule-error').length,
        bySeverity: this.#listed,
      },
    };
    const { spool } = this;
    const outcome: ScanOutcome = {
      report: { header, findings: () => spool.findings(), findingLines: () => spool.findingLines() },
      errors: this.#tally.bySeverity.error,
      notes,
      linter: engine.name,
      close: () => spool.close(),
    };
    if (options.updateBaseline !== true || options.baseline === undefined || this.#baseline === undefined)
      return outcome;
    if (execution.status !== 'complete') {
      notes.push('the baseline is left as it is, because the analysis is not complete');
      return outcome;
    }
    return {
      ...outcome,
      updatedBaseline: await updatedBaseline(options.baseline, this.#baseline, header, options.renames),
    };
  }
}

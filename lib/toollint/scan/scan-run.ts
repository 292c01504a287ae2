// The work of one scan, file by file: lint, compare with the baseline, count for the gate, filter, number, keep; then the
// report's header. The order of these steps is the order in `take` and `outcome`.
import type { Baseline } from '../compare/baseline.ts';
import { PARSE_ERROR_RULE } from '../document/finding-consistency.ts';
import { fileFindings } from './file-findings.ts';
import type { FoundFile } from './file-search.ts';
import { FindingSpool } from './finding-spool.ts';
import { numberOccurrences } from '../document/finding-order.ts';
import { evaluateGate, GateTally } from '../gate/gate.ts';
import type { EngineMessage, LintEngine } from './lint-engine.ts';
import { pathFault, sortedUnique } from '../document/report-path.ts';
import { type Finding, type ReportHeader, SCHEMA_VERSION, type Severity } from '../document/report-schema.ts';
import type { ScanOptions, ScanOutcome } from './scan-options.ts';
import { ScanBaseline } from './scan-baseline.ts';
import { ScanDiagnostics } from './scan-diagnostics.ts';
import { readSource } from './source-file.ts';
import { TOOL_NAME, TOOL_VERSION } from '../document/tool-identity.ts';

/** Takes the files in the order of their paths. The caller closes `spool` when it does not take the outcome. */
export class ScanRun {
  readonly spool = new FindingSpool();
  readonly reportedRuleIds = new Set<string>();
  /** Findings so far, all of them. */
  found = 0;

  readonly #options: ScanOptions;
  readonly #root: string;
  readonly #engine: LintEngine;
  readonly #baseline: ScanBaseline | undefined;
  readonly #baselineNotes: readonly string[];
  readonly #roots: readonly string[];
  readonly #diagnostics: ScanDiagnostics;
  readonly #tally = new GateTally();
  readonly #listed: Record<Severity, number> = { error: 0, warning: 0, info: 0 };

  constructor(options: ScanOptions, root: string, engine: LintEngine, baseline: Baseline | undefined) {
    this.#options = options;
    this.#root = root;
    this.#engine = engine;
    this.#baseline = baseline === undefined ? undefined : new ScanBaseline(baseline);
    this.#baselineNotes = baseline?.notes ?? [];
    this.#roots = sortedUnique([root, options.root]).filter((folder) => folder.startsWith('/')).sort((a, b) => b.length - a.length);
    this.#diagnostics = new ScanDiagnostics(this.#roots);
  }

  /** One file, from its text to the spool. */
  async take(file: FoundFile): Promise<void> {
    if (pathFault(file.path) !== undefined) {
      this.#diagnostics.parseError(file.path, `the file name ${JSON.stringify(file.path)} cannot stand in a report: ${pathFault(file.path)}`);
      return;
    }
    const { path } = file;
    const source = file.fault === undefined ? readSource(file.absolute) : { fault: file.fault };
    const text = 'text' in source ? source.text : '';
    const messages = 'text' in source ? await this.#lint(file, text) : [this.#unparsed(path, `the file cannot be read: ${source.fault}`)];
    const factsOf = (ruleId: string) => this.#engine.factsOf(ruleId);
    const findings = fileFindings({ path, text, messages, roots: this.#roots, snippets: this.#options.snippets !== false, factsOf });
    this.found += findings.length;
    const counting = this.#baseline?.newFindings(path, findings) ?? findings;
    for (const finding of counting) this.#tally.add(finding);
    await this.#list(counting);
  }

  async #lint(file: FoundFile, text: string): Promise<EngineMessage[]> {
    const { messages, crashes, failure } = await this.#engine.lint(file.absolute, text);
    for (const crash of crashes) this.#diagnostics.ruleError(file.path, crash);
    if (failure !== undefined) return [this.#unparsed(file.path, failure)];
    const fatal = messages.find((message) => message.fatal);
    if (fatal !== undefined) this.#diagnostics.parseError(file.path, fatal.message);
    for (const { ruleId } of messages) if (ruleId !== null && ruleId !== '') this.reportedRuleIds.add(ruleId);
    return messages;
  }

  #unparsed(path: string, message: string): EngineMessage {
    this.#diagnostics.parseError(path, message);
    return { ruleId: PARSE_ERROR_RULE, severity: 'error', message, fatal: true };
  }

  /** The quiet filter, then the numbers. */
  async #list(findings: readonly Finding[]): Promise<void> {
    const shown = this.#options.quiet === true ? findings.filter(({ severity }) => severity === 'error') : findings;
    numberOccurrences(shown);
    for (const { severity } of shown) this.#listed[severity] += 1;
    await this.spool.add(shown);
  }

  outcome(scanned: ReportHeader['scan'], files: readonly FoundFile[]): ScanOutcome {
    const execution = this.#diagnostics.execution(files.length);
    const quiet = this.#options.quiet === true;
    const against = this.#baseline?.counts({ scan: scanned, execution, selection: { quiet } }, this.#root, new Set(files.map(({ path }) => path)));
    const notes = [...this.#baselineNotes];
    if (against !== undefined && against.notVerifiable > 0) notes.push(`${against.notVerifiable} baseline findings are gone but not verifiably fixed`);
    const subject = {
      tally: this.#tally, baseline: against?.counts, execution, totalFiles: files.length, quiet: false, notVerifiable: against?.notVerifiable ?? 0,
    };
    const { error, warning, info } = this.#listed;
    const header: ReportHeader = {
      schemaVersion: SCHEMA_VERSION,
      tool: { name: TOOL_NAME, version: TOOL_VERSION },
      execution,
      scan: scanned,
      selection: against === undefined ? { quiet } : { quiet, baseline: against.counts },
      gate: evaluateGate(this.#options.gate, subject),
      summary: {
        totalFiles: files.length,
        totalIssues: error + warning + info,
        parseErrors: execution.diagnostics.filter(({ kind }) => kind === 'parse-error').length,
        ruleErrors: execution.diagnostics.filter(({ kind }) => kind === 'rule-error').length,
        bySeverity: this.#listed,
      },
    };
    const { spool } = this;
    return { report: { header, findings: () => spool.findings(), findingLines: () => spool.findingLines() }, errors: this.#tally.bySeverity.error, notes, close: () => spool.close() };
  }
}

// The scan: find files, lint each, compare with the baseline, evaluate the gate, filter, number, write down.
//
// One file is in work at a time and its findings go straight to the spool, in canonical order, since files are taken in
// the order of their paths. Memory is therefore that of the linter plus the baseline, whatever the number of findings.
// The quiet filter comes last: it changes what is listed, never a count of the baseline, the gate or the exit code.
import { realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { type Baseline, readBaseline } from './baseline.ts';
import type { ByteSource } from './byte-source.ts';
import { errnoOf, ioFailure, ReportFailure, throwIfInterrupted } from './failure.ts';
import { PARSE_ERROR_RULE } from './finding-consistency.ts';
import { fileFindings } from './file-findings.ts';
import { findFiles, findStarts, type FoundFile, type SearchRequest } from './file-search.ts';
import { FindingSpool } from './finding-spool.ts';
import { numberOccurrences } from './finding-order.ts';
import { checkGateNeeds, evaluateGate, GateTally } from './gate.ts';
import type { GateConfig } from './gate-config.ts';
import type { EngineMessage, LintEngine } from './lint-engine.ts';
import { pathFault, sortedUnique } from './report-path.ts';
import { type Finding, type ReportHeader, SCHEMA_VERSION, type Severity } from './report-schema.ts';
import type { ReportSource } from './report-source.ts';
import { ScanBaseline } from './scan-baseline.ts';
import { ScanDiagnostics } from './scan-diagnostics.ts';
import { scanScope } from './scan-scope.ts';
import { readSource } from './source-file.ts';
import { TOOL_NAME, TOOL_VERSION } from './tool-identity.ts';

/** What to scan and how. */
export interface ScanOptions {
  /** Report paths are relative to it. */
  root: string;
  /** What `paths` are relative to; where nothing is there, the root. Default: the root. */
  cwd?: string;
  /** Files, folders and patterns; default: the root. */
  paths?: readonly string[];
  include?: readonly string[];
  exclude?: readonly string[];
  /** File name endings without dot; default: what the configuration says. */
  extensions?: readonly string[];
  /** A bundled profile; null or absent: the target's own configuration. */
  profile?: string | null;
  /** Configuration file to use in place of the target's own, absolute. */
  config?: string | undefined;
  quiet?: boolean;
  baseline?: ByteSource | undefined;
  gate?: GateConfig | undefined;
  /** Default: now. */
  timestamp?: string | undefined;
  /** Duration 0, and the beginning of 1970 where no timestamp is given. */
  deterministic?: boolean;
  /** Source lines in the findings; default true. */
  snippets?: boolean;
  signal?: AbortSignal | undefined;
  /** Called after each file. */
  progress?: (done: number, total: number, findings: number) => void;
}

/** A finished scan. `close` removes what it holds on disk. */
export interface ScanOutcome {
  report: ReportSource;
  /** Findings of severity error that count: after the baseline, before the quiet filter. */
  errors: number;
  /** Sentences for standard error. */
  notes: string[];
  close(): Promise<void>;
}

/** Scans. Throws ReportFailure when it cannot begin, Interrupted when the signal fires; then nothing is left behind. */
export async function scan(options: ScanOptions): Promise<ScanOutcome> {
  const started = performance.now();
  const root = await realRoot(options.root);
  checkGateNeeds(options.gate, options.baseline !== undefined);
  const engine = await loadEngine(options, root);
  const baseline = await baselineFor(options);
  const search: SearchRequest = {
    root,
    cwd: options.cwd ?? root,
    paths: options.paths ?? [],
    include: options.include ?? [],
    exclude: options.exclude ?? [],
    extensions: options.extensions ?? [],
    signal: options.signal,
  };
  const starts = await findStarts(search);
  const { files, enabledRuleIds } = await lintableFiles(engine, await findFiles(search, starts));
  const scope = await scanScope({ ...search, starts, files, engine });
  const run = new ScanRun(options, root, engine, baseline);
  try {
    for (const [index, file] of files.entries()) {
      // Linting never waits for anything, so a signal would not be heard without a turn of the event loop.
      await setImmediate();
      throwIfInterrupted(options.signal);
      await run.take(file);
      options.progress?.(index + 1, files.length, run.found);
    }
    for (const id of run.reportedRuleIds) enabledRuleIds.add(id);
    return run.outcome({
      scopeKnown: true,
      ...scope,
      timestamp: options.timestamp ?? (options.deterministic === true ? new Date(0) : new Date()).toISOString(),
      durationMs: options.deterministic === true ? 0 : Math.round(performance.now() - started),
      profile: options.profile ?? null,
      enabledRuleIds: sortedUnique(enabledRuleIds),
    }, files);
  } catch (error) {
    await run.spool.close();
    throw error;
  }
}

async function realRoot(root: string): Promise<string> {
  return realpath(root).catch((error: unknown) => {
    throw ioFailure('scan', root, error);
  });
}

async function baselineFor({ baseline, profile = null, quiet = false, signal }: ScanOptions): Promise<Baseline | undefined> {
  if (baseline === undefined) return undefined;
  return readBaseline(baseline, { tool: { name: TOOL_NAME, version: TOOL_VERSION }, profile, quiet }, signal);
}

async function loadEngine(options: ScanOptions, root: string): Promise<LintEngine> {
  const { profile = null, config, extensions = [] } = options;
  try {
    const { createEngine } = await import('./eslint-engine.ts');
    return await createEngine({ root, profile, config, extensions });
  } catch (error) {
    const missing = error instanceof Error ? /Cannot find package '(eslint|typescript-eslint)'/u.exec(error.message)?.[1] : undefined;
    if (errnoOf(error) !== 'ERR_MODULE_NOT_FOUND' || missing === undefined) throw error;
    throw new ReportFailure('config', 'scan needs eslint and typescript-eslint, which are not installed: npm install --save-dev eslint typescript-eslint', error);
  }
}

/** Files that the configuration is for, and the rules that are on for any of them. */
async function lintableFiles(engine: LintEngine, found: readonly FoundFile[]): Promise<{ files: FoundFile[]; enabledRuleIds: Set<string> }> {
  const files: FoundFile[] = [];
  const enabledRuleIds = new Set<string>();
  let unconfigured: ReportFailure | undefined;
  for (const file of found) {
    try {
      const rules = await engine.rulesFor(file.isFolder === true ? join(file.absolute, 'x.js') : file.absolute);
      if (rules === undefined) continue;
      files.push(file);
      for (const id of rules) enabledRuleIds.add(id);
    } catch (error) {
      if (!(error instanceof ReportFailure) || !error.message.startsWith('no eslint.config')) throw error;
      if (/\.[cm]?[jt]sx?$/u.test(file.path)) unconfigured = error;
    }
  }
  if (files.length === 0 && unconfigured !== undefined) throw unconfigured;
  return { files, enabledRuleIds };
}

class ScanRun {
  readonly spool = new FindingSpool();
  readonly reportedRuleIds = new Set<string>();
  /** Findings so far, all of them. */
  found = 0;

  private readonly options: ScanOptions;
  private readonly root: string;
  private readonly engine: LintEngine;
  private readonly baseline: ScanBaseline | undefined;
  private readonly baselineNotes: readonly string[];
  private readonly roots: readonly string[];
  private readonly diagnostics: ScanDiagnostics;
  private readonly tally = new GateTally();
  private readonly listed: Record<Severity, number> = { error: 0, warning: 0, info: 0 };

  constructor(options: ScanOptions, root: string, engine: LintEngine, baseline: Baseline | undefined) {
    this.options = options;
    this.root = root;
    this.engine = engine;
    this.baseline = baseline === undefined ? undefined : new ScanBaseline(baseline);
    this.baselineNotes = baseline?.notes ?? [];
    this.roots = sortedUnique([root, options.root]).filter((folder) => folder.startsWith('/')).sort((a, b) => b.length - a.length);
    this.diagnostics = new ScanDiagnostics(this.roots);
  }

  /** One file, from its text to the spool. */
  async take(file: FoundFile): Promise<void> {
    if (pathFault(file.path) !== undefined) {
      this.diagnostics.parseError(file.path, `the file name ${JSON.stringify(file.path)} cannot stand in a report: ${pathFault(file.path)}`);
      return;
    }
    const { path } = file;
    const source = file.fault === undefined ? readSource(file.absolute) : { fault: file.fault };
    const text = 'text' in source ? source.text : '';
    const messages = 'text' in source ? await this.lint(file, text) : [this.unparsed(path, `the file cannot be read: ${source.fault}`)];
    const factsOf = (ruleId: string) => this.engine.factsOf(ruleId);
    const findings = fileFindings({ path, text, messages, roots: this.roots, snippets: this.options.snippets !== false, factsOf });
    this.found += findings.length;
    const counting = this.baseline?.newFindings(path, findings) ?? findings;
    for (const finding of counting) this.tally.add(finding);
    await this.list(counting);
  }

  private async lint(file: FoundFile, text: string): Promise<EngineMessage[]> {
    const { messages, crashes, failure } = await this.engine.lint(file.absolute, text);
    for (const crash of crashes) this.diagnostics.ruleError(file.path, crash);
    if (failure !== undefined) return [this.unparsed(file.path, failure)];
    const fatal = messages.find((message) => message.fatal);
    if (fatal !== undefined) this.diagnostics.parseError(file.path, fatal.message);
    for (const { ruleId } of messages) if (ruleId !== null && ruleId !== '') this.reportedRuleIds.add(ruleId);
    return messages;
  }

  private unparsed(path: string, message: string): EngineMessage {
    this.diagnostics.parseError(path, message);
    return { ruleId: PARSE_ERROR_RULE, severity: 'error', message, fatal: true };
  }

  /** The quiet filter, then the numbers. */
  private async list(findings: readonly Finding[]): Promise<void> {
    const shown = this.options.quiet === true ? findings.filter(({ severity }) => severity === 'error') : findings;
    numberOccurrences(shown);
    for (const { severity } of shown) this.listed[severity] += 1;
    await this.spool.add(shown);
  }

  outcome(scanned: ReportHeader['scan'], files: readonly FoundFile[]): ScanOutcome {
    const execution = this.diagnostics.execution(files.length);
    const quiet = this.options.quiet === true;
    const against = this.baseline?.counts({ scan: scanned, execution, selection: { quiet } }, this.root, new Set(files.map(({ path }) => path)));
    const notes = [...this.baselineNotes];
    if (against !== undefined && against.notVerifiable > 0) notes.push(`${against.notVerifiable} baseline findings are gone but not verifiably fixed`);
    const subject = {
      tally: this.tally, baseline: against?.counts, execution, totalFiles: files.length, quiet: false, notVerifiable: against?.notVerifiable ?? 0,
    };
    const { error, warning, info } = this.listed;
    const header: ReportHeader = {
      schemaVersion: SCHEMA_VERSION,
      tool: { name: TOOL_NAME, version: TOOL_VERSION },
      execution,
      scan: scanned,
      selection: against === undefined ? { quiet } : { quiet, baseline: against.counts },
      gate: evaluateGate(this.options.gate, subject),
      summary: {
        totalFiles: files.length,
        totalIssues: error + warning + info,
        parseErrors: execution.diagnostics.filter(({ kind }) => kind === 'parse-error').length,
        ruleErrors: execution.diagnostics.filter(({ kind }) => kind === 'rule-error').length,
        bySeverity: this.listed,
      },
    };
    const { spool, tally } = this;
    return { report: { header, findings: () => spool.findings(), findingLines: () => spool.findingLines() }, errors: tally.bySeverity.error, notes, close: () => spool.close() };
  }
}

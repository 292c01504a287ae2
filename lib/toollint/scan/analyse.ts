// Runs a scan: finds the files and lints them one at a time, in the order of their paths.
import { join, resolve } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { isReserved, PARSE_ERROR_RULE } from '../document/consistency.ts';
import { realFolder } from '../document/document-source.ts';
import { oneLine, ReportFailure, throwIfInterrupted } from '../document/failure.ts';
import { descriptions, fileFindings, type LintMessage, withoutDirectives } from '../document/file-findings.ts';
import { literalGlob, normalGlob } from '../document/file-pattern.ts';
import { byCodeUnits, pathFault, PathPrefix, sortedUnique, withoutAbsolutePaths } from '../document/report-path.ts';
import { mayExist, readSource } from '../document/source-file.ts';
import type { Diagnostic, Finding, Scan } from '../document/report-schema.ts';
import type { FoundFile, SearchRequest, Start } from './file-search.ts';
import { findFiles, findStarts, isNamedBy, isWanted } from './file-search.ts';
import type { EslintEngine } from './eslint-engine.ts';

import { type Analysis, type AnalysisOptions, ConfigMissing, type Coverage, type RuleCrash } from './scan-options.ts';
import { readSuppressions, suppress, type Suppressions } from './suppressions.ts';

/** Throws ReportFailure if the scan cannot start, Interrupted if the signal fires. */
export async function analyse(options: AnalysisOptions): Promise<Analysis> {
  const started = performance.now();
  const root = realFolder(options.root);
  const prefix = new PathPrefix(options.pathPrefix ?? '');
  // Loaded on demand, because loading ESLint takes most of the startup time.
  const { EslintEngine } = await import('./eslint-engine.ts');
  const engine = new EslintEngine({ ...options, root });
  const search: SearchRequest = { ...options, root, isLeftOut: (folder) => engine.isFolderIgnored(folder) };
  const starts = await findStarts(search);
  const found = await findFiles(search, starts);
  const { files, enabledRuleIds } = await lintableFiles(engine, found);
  const named = options.paths === undefined || options.paths.length === 0 ? [] : starts;
  const notes = named.filter((start) => !files.some(({ path }) => isNamedBy(start, path))).map(passedOverNote);
  const roots = sortedUnique([root, resolve(options.root)]);
  const work = new FileWork(engine, prefix, await readSuppressions(root), roots);
  for (const [index, file] of files.entries()) {
    // Linting is synchronous, so without a turn of the event loop, no signal would be handled.
    await setImmediate();
    throwIfInterrupted(options.signal);
    await work.take(file);
    options.progress?.(index + 1, files.length, work.findings.length);
  }
  for (const { ruleId } of work.findings) if (!isReserved(ruleId)) enabledRuleIds.add(ruleId);
  const onDisk = new Set(found.map(({ path }) => path));
  const exists = (path: string) => {
    const own = prefix.strip(path);
    return own !== undefined && (onDisk.has(own) || mayExist(join(root, own)));
  };
  return {
    findings: work.findings,
    diagnostics: work.diagnostics.list(),
    totalFiles: files.length,
    scan: {
      scopeKnown: true,
      ...scopeOf(starts, files, options, prefix),
      timestamp: options.timestamp ?? (options.deterministic === true ? new Date(0) : new Date()).toISOString(),
      durationMs: options.deterministic === true ? 0 : Math.round(performance.now() - started),
      profile: null,
      enabledRuleIds: sortedUnique(enabledRuleIds),
    },
    linter: engine.linter,
    rules: descriptions(work.findings, (ruleId) => engine.factsOf(ruleId)),
    notes,
    unusedSuppressions: work.unusedSuppressions,
    exists,
    coverageOf: async (path) => {
      const own = prefix.strip(path);
      if (own === undefined || exists(path)) return work.coverage.get(path);
      return { ran: new Set(await rulesIfThere(own, search, starts, engine)), suppressed: [] };
    },
    isChecked: (path) =>
      work.coverage.has(path) || (isWhole(options) && prefix.strip(path) !== undefined && !work.isBroken(path)),
  };
}

function isWhole({ paths = [], include = [], exclude = [], extensions = [] }: AnalysisOptions): boolean {
  return [...paths, ...include, ...exclude, ...extensions].length === 0;
}

/** Returns the rules that a scan would run on a deleted file. */
async function rulesIfThere(
  path: string,
  search: SearchRequest,
  starts: readonly Start[],
  engine: EslintEngine,
): Promise<readonly string[]> {
  const absolute = join(search.root, path);
  if (!starts.some((start) => isNamedBy(start, path)) || !isWanted({ path, absolute }, search)) return [];
  try {
    return (await engine.rulesFor(absolute)) ?? [];
  } catch (cause) {
    if (cause instanceof ReportFailure) return [];
    throw cause;
  }
}

async function lintableFiles(
  engine: EslintEngine,
  found: readonly FoundFile[],
): Promise<{ files: FoundFile[]; enabledRuleIds: Set<string> }> {
  const files: FoundFile[] = [];
  const enabledRuleIds = new Set<string>();
  let unconfigured: ConfigMissing | undefined;
  for (const file of found) {
    try {
      const rules = await engine.rulesFor(file.isFolder === true ? join(file.absolute, 'x.js') : file.absolute);
      if (rules === undefined) continue;
      files.push(file);
      for (const id of rules) enabledRuleIds.add(id);
    } catch (cause) {
      if (!(cause instanceof ConfigMissing)) throw cause;
      if (/\.[cm]?[jt]sx?$/u.test(file.path)) unconfigured = cause;
    }
  }
  if (files.length === 0 && unconfigured !== undefined) throw unconfigured;
  return { files, enabledRuleIds };
}

function passedOverNote(start: Start): string {
  const name = start.kind === 'glob' ? start.pattern : start.path;
  return `nothing to scan for '${name}': no file is there, or all are ignored or have no configuration`;
}

/**
 * Lists the scanned files, because patterns cannot express every configuration. A later comparison calls a finding
 * fixed only if its file is listed.
 */
function scopeOf(
  starts: readonly Start[],
  files: readonly FoundFile[],
  { exclude = [] }: AnalysisOptions,
  prefix: PathPrefix,
): Pick<Scan, 'target' | 'include' | 'exclude'> {
  const [only] = starts;
  const isReportPath = (path: string) => pathFault(path) === undefined;
  const target =
    starts.length === 1 && only !== undefined && only.kind !== 'glob' && isReportPath(only.path)
      ? { kind: only.kind === 'file' ? ('file' as const) : ('project' as const), path: prefix.of(only.path) }
      : { kind: 'project' as const, path: prefix.of('.') };
  return {
    target,
    include: sortedUnique(
      files.filter(({ path }) => isReportPath(path)).map(({ path }) => literalGlob(prefix.of(path))),
    ),
    exclude: sortedUnique(exclude.map((glob) => prefix.ofGlob(normalGlob(glob)))),
  };
}

class FileWork {
  readonly findings: Finding[] = [];
  readonly diagnostics: ScanDiagnostics;
  readonly coverage = new Map<string, Coverage>();
  unusedSuppressions = 0;
  readonly #engine: EslintEngine;
  readonly #prefix: PathPrefix;
  readonly #suppressions: Suppressions;
  readonly #roots: readonly string[];

  constructor(engine: EslintEngine, prefix: PathPrefix, suppressions: Suppressions, roots: readonly string[]) {
    this.#engine = engine;
    this.#prefix = prefix;
    this.#suppressions = suppressions;
    this.#roots = [...roots].sort((a, b) => b.length - a.length);
    this.diagnostics = new ScanDiagnostics(this.#roots);
  }

  async take(file: FoundFile): Promise<void> {
    const path = this.#prefix.of(file.path);
    const fault = pathFault(path);
    if (fault !== undefined) {
      this.diagnostics.parseError(path, `the file name ${JSON.stringify(path)} is not possible in a report: ${fault}`);
      return;
    }
    const source = file.fault === undefined ? readSource(file.absolute) : { fault: file.fault };
    if ('fault' in source) return this.#unparsed(path, `the file cannot be read: ${source.fault}`);
    const linted = await this.#engine.lint(file.absolute, source.text);
    for (const crash of linted.crashes) this.diagnostics.ruleError(path, crash);
    if (linted.failure !== undefined) return this.#unparsed(path, linted.failure);
    const fatal = linted.messages.find((message) => message.fatal);
    if (fatal !== undefined) this.diagnostics.parseError(path, fatal.message);
    const { messages, suppressed, unused } = suppress(linted.messages, this.#suppressions[file.path]);
    for (const finding of this.#findingsOf(path, source.text, messages)) this.findings.push(finding);
    if (fatal !== undefined) return;
    this.unusedSuppressions += unused;
    const takenBack = [...linted.suppressed, ...suppressed];
    this.coverage.set(path, {
      ran: new Set(linted.ran),
      suppressed: this.#findingsOf(path, takenBack.length === 0 ? '' : withoutDirectives(source.text), takenBack),
    });
  }

  isBroken(path: string): boolean {
    return this.findings.some(({ ruleId, location }) => ruleId === PARSE_ERROR_RULE && location.path === path);
  }

  #findingsOf(path: string, text: string, messages: readonly LintMessage[]): Finding[] {
    const factsOf = (ruleId: string) => this.#engine.factsOf(ruleId);
    return fileFindings({ path, text, messages, roots: this.#roots, factsOf });
  }

  #unparsed(path: string, message: string): void {
    this.diagnostics.parseError(path, message);
    const messages: LintMessage[] = [{ ruleId: PARSE_ERROR_RULE, severity: 'error', message, fatal: true }];
    this.findings.push(...this.#findingsOf(path, '', messages));
  }
}

const MESSAGE_UNITS_MAX = 2000;

/** Each message is one line, without absolute paths or stacks. */
class ScanDiagnostics {
  readonly #roots: readonly string[];
  readonly #found: Diagnostic[] = [];

  constructor(roots: readonly string[]) {
    this.#roots = roots;
  }

  parseError(path: string, message: string): void {
    const diagnostic: Diagnostic = { kind: 'parse-error', message: this.#clean(message) };
    if (pathFault(path) === undefined) diagnostic.relativePath = path;
    this.#found.push(diagnostic);
  }

  ruleError(relativePath: string, { ruleId, message }: RuleCrash): void {
    this.#found.push({ kind: 'rule-error', message: this.#clean(message), ruleId, relativePath });
  }

  list(): Diagnostic[] {
    return this.#found.sort(
      (left, right) =>
        byCodeUnits(left.kind, right.kind) ||
        byCodeUnits(left.relativePath ?? '', right.relativePath ?? '') ||
        byCodeUnits(left.ruleId ?? '', right.ruleId ?? '') ||
        byCodeUnits(left.message, right.message),
    );
  }

  #clean(text: string): string {
    const line = oneLine(withoutAbsolutePaths(text, this.#roots)) || 'no message';
    return line.slice(0, MESSAGE_UNITS_MAX).toWellFormed();
  }
}

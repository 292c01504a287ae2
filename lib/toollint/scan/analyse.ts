// Runs a scan: finds the files and lints them one at a time, in the order of their paths.
import { join, resolve } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { buildReport, ownTool } from '../document/build-report.ts';
import { realFolder } from '../document/document-source.ts';
import { oneLine, ReportFailure, throwIfInterrupted } from '../document/failure.ts';
import { descriptions, fileFindings, type LintMessage, withoutDirectives } from '../document/file-findings.ts';
import { literalGlob, normalGlob } from '../document/file-pattern.ts';
import { isReserved, PARSE_ERROR_RULE } from '../document/report-format.ts';
import { byCodeUnits, pathFault, pathPrefix, sortedUnique, withoutAbsolutePaths } from '../document/report-path.ts';
import { mayExist, readSource } from '../document/source-file.ts';
import type { Diagnostic, Finding, Report, Scan } from '../document/report-schema.ts';
import { ConfigMissing, EslintEngine } from './eslint-engine.ts';
import {
  type AnalysisOptions,
  findFiles,
  findStarts,
  type FoundFile,
  isNamedBy,
  isWanted,
  type SearchRequest,
  type Start,
} from './file-search.ts';
import { readSuppressions, suppress, type Suppressions } from './suppressions.ts';

interface Coverage {
  readonly ran: ReadonlySet<string>;
  readonly suppressed: readonly Finding[];
}

export interface Analysis {
  readonly report: Report;
  readonly notes: string[];
  readonly unusedSuppressions: number;
  /** Also returns true for a path that cannot be checked. Returns false for a path outside the prefix. */
  readonly exists: (path: string) => boolean;
  /**
   * Returns `undefined` if the file was not checked to its end. For a deleted file, returns the rules that would run
   * on it.
   */
  readonly coverageOf: (path: string) => Promise<Coverage | undefined>;
  /** True if the scan checked the file to its end or, as a scan of the whole root, left it out on purpose. */
  readonly isChecked: (path: string) => boolean;
}

/** Throws ReportFailure if the scan cannot start, Interrupted if the signal fires. */
export async function analyse(options: AnalysisOptions): Promise<Analysis> {
  const started = performance.now();
  const { deterministic = false, paths = [], include = [], exclude = [], extensions = [] } = options;
  const root = realFolder(options.root);
  const prefix = pathPrefix(options.pathPrefix);
  const engine = new EslintEngine({ ...options, root });
  const search: SearchRequest = { ...options, root, isLeftOut: (folder) => engine.isFolderIgnored(folder) };
  const starts = await findStarts(search);
  const found = await findFiles(search, starts);
  const { files, enabledRuleIds } = await lintableFiles(engine, found);
  const named = paths.length === 0 ? [] : starts;
  const notes = named.filter((start) => !files.some(({ path }) => isNamedBy(start, path))).map(passedOverNote);
  const roots = sortedUnique([root, resolve(options.root)]).sort((a, b) => b.length - a.length);
  const work = new FileScan({ engine, prefix, suppressions: await readSuppressions(root), roots });
  for (const file of files) {
    // Linting is synchronous, so without a turn of the event loop, no signal would be handled.
    await setImmediate();
    throwIfInterrupted(options.signal);
    await work.take(file);
  }
  const { findings, coverage, unusedSuppressions } = work;
  for (const { ruleId } of findings) if (!isReserved(ruleId)) enabledRuleIds.add(ruleId);
  const rules = descriptions(findings, (ruleId) => engine.factsOf(ruleId));
  const report = buildReport({
    tool: ownTool({ linter: engine.linter, rules }),
    scan: {
      scopeKnown: true,
      ...scopeOf(starts, files, exclude, prefix),
      timestamp: options.timestamp ?? (deterministic ? new Date(0) : new Date()).toISOString(),
      durationMs: deterministic ? 0 : Math.round(performance.now() - started),
      profile: null,
      enabledRuleIds: sortedUnique(enabledRuleIds),
    },
    findings,
    diagnostics: work.diagnostics.sort(compareDiagnostics),
    totalFiles: files.length,
  });
  const onDisk = new Set(found.map(({ path }) => path));
  const exists = (path: string) => {
    const own = prefix.strip(path);
    return own !== undefined && (onDisk.has(own) || mayExist(join(root, own)));
  };
  const isWhole = [...paths, ...include, ...exclude, ...extensions].length === 0;
  const broken = new Set(findings.filter(({ ruleId }) => ruleId === PARSE_ERROR_RULE).map((one) => one.location.path));
  return {
    ...{ report, notes, unusedSuppressions, exists },
    coverageOf: async (path) => {
      const own = prefix.strip(path);
      if (own === undefined || exists(path)) return coverage.get(path);
      return { ran: new Set(await rulesIfThere(own, search, starts, engine)), suppressed: [] };
    },
    isChecked: (path) => coverage.has(path) || (isWhole && prefix.strip(path) !== undefined && !broken.has(path)),
  };
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

function passedOverNote({ path }: Start): string {
  return `nothing to scan for '${path}': no file is there, or all are ignored or have no configuration`;
}

/**
 * Lists the scanned files, because patterns cannot express every configuration. A later comparison calls a finding
 * fixed only if its file is listed.
 */
function scopeOf(
  starts: readonly Start[],
  files: readonly FoundFile[],
  exclude: readonly string[],
  prefix: LintContext['prefix'],
): Pick<Scan, 'target' | 'include' | 'exclude'> {
  const [only] = starts;
  const isReportPath = (path: string) => pathFault(path) === undefined;
  const isPlain = starts.length === 1 && only !== undefined && only.kind !== 'glob' && isReportPath(only.path);
  const included = files.map(({ path }) => path).filter(isReportPath);
  return {
    target: {
      kind: isPlain && only.kind === 'file' ? 'file' : 'project',
      path: prefix.of(isPlain ? only.path : '.'),
    },
    include: sortedUnique(included.map((path) => literalGlob(prefix.of(path)))),
    exclude: sortedUnique(exclude.map((glob) => prefix.ofGlob(normalGlob(glob)))),
  };
}

const MESSAGE_UNITS_MAX = 2000;

interface LintContext {
  readonly engine: EslintEngine;
  readonly prefix: ReturnType<typeof pathPrefix>;
  readonly suppressions: Suppressions;
  /** The longest first. */
  readonly roots: readonly string[];
}

class FileScan {
  readonly findings: Finding[] = [];
  readonly diagnostics: Diagnostic[] = [];
  readonly coverage = new Map<string, Coverage>();
  unusedSuppressions = 0;
  readonly #context: LintContext;

  constructor(context: LintContext) {
    this.#context = context;
  }

  async take(file: FoundFile): Promise<void> {
    const { engine, prefix, suppressions } = this.#context;
    const path = prefix.of(file.path);
    const fault = pathFault(path);
    if (fault !== undefined)
      return this.#diagnose({
        kind: 'parse-error',
        message: `the file name ${JSON.stringify(path)} is not possible in a report: ${fault}`,
      });
    const source = file.fault === undefined ? readSource(file.absolute) : { fault: file.fault };
    if ('fault' in source) return this.#unparsed(path, `the file cannot be read: ${source.fault}`);
    const linted = await engine.lint(file.absolute, source.text);
    for (const { message, ruleId } of linted.crashes)
      this.#diagnose({ kind: 'rule-error', message, ruleId, relativePath: path });
    if (linted.failure !== undefined) return this.#unparsed(path, linted.failure);
    const { messages, suppressed, unused } = suppress(linted.messages, suppressions[file.path]);
    for (const finding of this.#findingsOf(path, source.text, messages)) this.findings.push(finding);
    const fatal = linted.messages.find((message) => message.fatal);
    if (fatal !== undefined) return this.#diagnose({ kind: 'parse-error', message: fatal.message, relativePath: path });
    this.unusedSuppressions += unused;
    const hidden = [...linted.suppressed, ...suppressed];
    const text = hidden.length === 0 ? '' : withoutDirectives(source.text);
    this.coverage.set(path, { ran: new Set(linted.ran), suppressed: this.#findingsOf(path, text, hidden) });
  }

  #findingsOf(path: string, text: string, messages: readonly LintMessage[]): Finding[] {
    const { engine, roots } = this.#context;
    return fileFindings({ path, text, messages, roots, factsOf: (ruleId) => engine.factsOf(ruleId) });
  }

  #unparsed(path: string, message: string): void {
    this.#diagnose({ kind: 'parse-error', message, relativePath: path });
    const messages: LintMessage[] = [{ ruleId: PARSE_ERROR_RULE, severity: 'error', message, fatal: true }];
    this.findings.push(...this.#findingsOf(path, '', messages));
  }

  /** A message is one line, without absolute paths or stacks. */
  #diagnose(diagnostic: Diagnostic): void {
    const line = oneLine(withoutAbsolutePaths(diagnostic.message, this.#context.roots)) || 'no message';
    this.diagnostics.push({ ...diagnostic, message: line.slice(0, MESSAGE_UNITS_MAX).toWellFormed() });
  }
}

function compareDiagnostics(left: Diagnostic, right: Diagnostic): number {
  return (
    byCodeUnits(left.kind, right.kind) ||
    byCodeUnits(left.relativePath ?? '', right.relativePath ?? '') ||
    byCodeUnits(left.ruleId ?? '', right.ruleId ?? '') ||
    byCodeUnits(left.message, right.message)
  );
}

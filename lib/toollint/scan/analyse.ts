// Runs a scan: finds the files and lints them one at a time, in the order of their paths.
import { join, resolve } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { buildReport, ownTool } from '../document/build-report.ts';
import { realFolder } from '../document/document-source.ts';
import { messageOf, oneLine, ReportFailure, throwIfInterrupted } from '../document/failure.ts';
import { descriptions, fileFindings, type LintMessage, withoutDirectives } from '../document/file-findings.ts';
import { isReserved, PARSE_ERROR_RULE } from '../document/report-format.ts';
import { byCodeUnits, sortedUnique, withoutAbsolutePaths } from '../document/report-path.ts';
import { readSource } from '../document/source-file.ts';
import type { Diagnostic, Finding } from '../document/report-schema.ts';
import { ConfigMissing, EslintEngine } from './eslint-engine.ts';
import { type AnalysisOptions, type FoundFile, searchFiles } from './file-search.ts';

const SUPPRESSIONS_FILE = 'eslint-suppressions.json';

export type Analysis = Awaited<ReturnType<typeof analyse>>;

export async function analyse(options: AnalysisOptions) {
  const started = performance.now();
  const { deterministic = false } = options;
  const root = realFolder(options.root);
  const engine = new EslintEngine({ ...options, root });
  const search = await searchFiles({ ...options, root, isLeftOut: (folder) => engine.isFolderIgnored(folder) });
  const { files, enabledRuleIds } = await lintableFiles(engine, search.found);
  const read = ['package.json', SUPPRESSIONS_FILE].map((name) => join(root, name));
  options.checkRead?.([...files.map(({ absolute }) => absolute), ...read, (await engine.configOf(root)) ?? root]);
  const reason = 'no file is there, or all are ignored or have no configuration';
  const notes = search.idle(files).map(({ path }) => `nothing to scan for '${path}': ${reason}`);
  const roots = [...new Set([root, resolve(options.root)])].sort((a, b) => b.length - a.length);
  const scanFile = fileScanner(engine, readSuppressions(root), roots);
  const results: FileResult[] = [];
  for (const file of files) {
    // Linting is synchronous, so without a turn of the event loop, no signal would be handled.
    await setImmediate();
    throwIfInterrupted(options.signal);
    results.push(await scanFile(file));
    options.progress?.(results.length, files.length);
  }
  const findings = results.flatMap((result) => result.findings);
  const coverage = new Map(results.map((result) => [result.path, result.coverage]));
  for (const { ruleId } of findings) if (!isReserved(ruleId)) enabledRuleIds.add(ruleId);
  const rules = descriptions(findings, (ruleId) => engine.factsOf(ruleId));
  const report = buildReport({
    tool: ownTool({ linter: engine.linter, rules }),
    scan: {
      scopeKnown: true,
      ...search.scopeOf(files),
      timestamp: options.timestamp ?? (deterministic ? new Date(0) : new Date()).toISOString(),
      durationMs: deterministic ? 0 : Math.round(performance.now() - started),
      profile: null,
      enabledRuleIds: sortedUnique(enabledRuleIds),
    },
    findings,
    diagnostics: sortedDiagnostics(results, roots),
    totalFiles: files.length,
  });
  return {
    ...{ report, notes, exists: search.exists },
    unusedSuppressions: results.reduce((sum, { unused = 0 }) => sum + unused, 0),
    /** `undefined` for a file that was not checked to its end. For a deleted file, the rules that would run on it. */
    coverageOf: async (path: string): Promise<FileResult['coverage']> => {
      if (!search.isUnderPrefix(path) || search.exists(path)) return coverage.get(path);
      const missing = search.missingFile(path);
      const rules = missing === undefined ? [] : await engine.rulesFor(missing).catch(() => []);
      return { ran: new Set(rules), suppressed: [] };
    },
    /** True if the scan checked the file to its end or, as a scan of the whole root, left it out on purpose. */
    isChecked: (path: string) =>
      coverage.has(path) ? coverage.get(path) !== undefined : search.isWhole && search.isUnderPrefix(path),
  };
}

async function lintableFiles(engine: EslintEngine, candidates: readonly FoundFile[]) {
  const files: FoundFile[] = [];
  const enabledRuleIds = new Set<string>();
  let unconfigured: ConfigMissing | undefined;
  for (const file of candidates) {
    try {
      const rules = await engine.rulesFor(file.kind === 'folder' ? join(file.absolute, 'x.js') : file.absolute);
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

interface FileResult {
  readonly path: string;
  readonly findings: readonly Finding[];
  readonly diagnostics: readonly Diagnostic[];
  /** Set if the file was checked to its end. */
  readonly coverage?: { readonly ran: ReadonlySet<string>; readonly suppressed: readonly Finding[] };
  readonly unused?: number;
}

/** The longest root is the first. */
function fileScanner(engine: EslintEngine, suppressions: Suppressions, roots: readonly string[]) {
  return async (file: FoundFile): Promise<FileResult> => {
    const { reportPath: path, pathFault } = file;
    if (pathFault !== undefined) {
      const message = `the file name ${JSON.stringify(path)} is not possible in a report: ${pathFault}`;
      return { path, findings: [], diagnostics: [{ kind: 'parse-error', message }] };
    }
    const parseError = (message: string): Diagnostic => ({ kind: 'parse-error', message, relativePath: path });
    const findingsOf = (text: string, messages: readonly LintMessage[]) =>
      fileFindings({ path, text, messages, roots, factsOf: (ruleId) => engine.factsOf(ruleId) });
    const unparsed = (message: string): FileResult => ({
      path,
      findings: findingsOf('', [{ ruleId: PARSE_ERROR_RULE, severity: 'error', message, fatal: true }]),
      diagnostics: [parseError(message)],
    });
    const source = file.fault === undefined ? readSource(file.absolute) : { fault: file.fault };
    if ('fault' in source) return unparsed(`the file cannot be read: ${source.fault}`);
    const content = source.bytes.toString();
    const linted = await engine.lint(file.absolute, content);
    if (linted.failure !== undefined) return unparsed(linted.failure);
    const { messages, suppressed, unused } = suppress(linted.messages, suppressions[file.path]);
    const findings = findingsOf(content, messages);
    const crashes = linted.crashes.map((crash): Diagnostic => ({ kind: 'rule-error', ...crash, relativePath: path }));
    const fatal = linted.messages.find((message) => message.fatal);
    if (fatal !== undefined) return { path, findings, diagnostics: [...crashes, parseError(fatal.message)] };
    const hidden = [...linted.suppressed, ...suppressed];
    const text = hidden.length === 0 ? '' : withoutDirectives(content);
    const coverage = { ran: new Set(linted.ran), suppressed: findingsOf(text, hidden) };
    return { path, findings, diagnostics: crashes, coverage, unused };
  };
}

const MESSAGE_UNITS_MAX = 2000;

/** Each message is one line, without absolute paths or stacks. */
function sortedDiagnostics(results: readonly FileResult[], roots: readonly string[]): Diagnostic[] {
  const all = results.flatMap(({ diagnostics }) => diagnostics);
  const clean = all.map((diagnostic): Diagnostic => {
    const line = oneLine(withoutAbsolutePaths(diagnostic.message, roots)) || 'no message';
    return { ...diagnostic, message: line.slice(0, MESSAGE_UNITS_MAX).toWellFormed() };
  });
  const keyOf = ({ kind, relativePath = '', ruleId = '', message }: Diagnostic) =>
    [kind, relativePath, ruleId, message].join('\0');
  return clean.sort((left, right) => byCodeUnits(keyOf(left), keyOf(right)));
}

/** ESLint's bulk suppressions: the number of errors that each file and rule may have. toollint never writes them. */
type Suppressions = Readonly<Record<string, Readonly<Record<string, { readonly count: number }>>>>;

function readSuppressions(root: string): Suppressions {
  const source = readSource(join(root, SUPPRESSIONS_FILE));
  if ('fault' in source && source.fault === 'ENOENT') return {};
  try {
    if ('fault' in source) throw new Error(source.fault);
    return Object.assign(Object.create(null), JSON.parse(source.bytes.toString())) as Suppressions;
  } catch (cause) {
    throw new ReportFailure('config', `${SUPPRESSIONS_FILE} cannot be read: ${messageOf(cause)}`, cause);
  }
}

/** As in ESLint, hides up to the allowed number of errors; if there is one more, shows all. Warnings are shown. */
function suppress(messages: readonly LintMessage[], allowed: Suppressions[string] = {}) {
  const counts = new Map(Object.entries(allowed).map(([ruleId, { count }]) => [ruleId, count]));
  const errors = Map.groupBy(messages, ({ ruleId, severity }) => (severity === 'error' ? ruleId : null));
  const errorCount = (ruleId: string | null) => errors.get(ruleId)?.length ?? 0;
  const isSuppressed = ({ ruleId }: LintMessage) =>
    errorCount(ruleId) > 0 && errorCount(ruleId) <= (counts.get(ruleId ?? '') ?? 0);
  const unused = [...counts].filter(([ruleId, count]) => errorCount(ruleId) < count).length;
  const { true: suppressed = [], false: shown = [] } = Object.groupBy(messages, (one) => `${isSuppressed(one)}`);
  return { messages: shown, suppressed, unused };
}

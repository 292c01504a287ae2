// Runs a scan: finds the files and lints them one at a time, in the order of their paths.
import { join, resolve } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { buildReport, ownTool } from '../document/build-report.ts';
import { realFolder } from '../document/document-source.ts';
import { oneLine, throwIfInterrupted } from '../document/failure.ts';
import { descriptions, fileFindings, type LintMessage, withoutDirectives } from '../document/file-findings.ts';
import { literalGlob, normalGlob } from '../document/file-pattern.ts';
import { isReserved, PARSE_ERROR_RULE } from '../document/report-format.ts';
import { byCodeUnits, pathFault, pathPrefix, sortedUnique, withoutAbsolutePaths } from '../document/report-path.ts';
import { mayExist, readSource } from '../document/source-file.ts';
import type { Diagnostic, Finding, Scan } from '../document/report-schema.ts';
import { ConfigMissing, EslintEngine } from './eslint-engine.ts';
import { type AnalysisOptions, findFiles, findStarts, isNamedBy, isWanted } from './file-search.ts';
import type { Place, SearchRequest } from './file-search.ts';
import { readSuppressions, suppress, SUPPRESSIONS_FILE, type Suppressions } from './suppressions.ts';

export type Analysis = Awaited<ReturnType<typeof analyse>>;

export async function analyse(options: AnalysisOptions) {
  const started = performance.now();
  const { deterministic = false, paths = [], include = [], exclude = [], extensions = [] } = options;
  const root = realFolder(options.root);
  const prefix = pathPrefix(options.pathPrefix);
  const engine = new EslintEngine({ ...options, root });
  const search: SearchRequest = { ...options, root, isLeftOut: (folder) => engine.isFolderIgnored(folder) };
  const starts = await findStarts(search);
  const found = await findFiles(search, starts);
  const { files, enabledRuleIds } = await lintableFiles(engine, found);
  const read = ['package.json', SUPPRESSIONS_FILE].map((name) => join(root, name));
  options.checkRead?.([...files.map(({ absolute }) => absolute), ...read, (await engine.configOf(root)) ?? root]);
  const named = paths.length === 0 ? [] : starts;
  const idle = named.filter((start) => !files.some(({ path }) => isNamedBy(start, path)));
  const reason = 'no file is there, or all are ignored or have no configuration';
  const notes = idle.map(({ path }) => `nothing to scan for '${path}': ${reason}`);
  const roots = sortedUnique([root, resolve(options.root)]).sort((a, b) => b.length - a.length);
  const scanFile = fileScanner(engine, prefix, readSuppressions(root), roots);
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
      ...scopeOf(starts, files, exclude, prefix),
      timestamp: options.timestamp ?? (deterministic ? new Date(0) : new Date()).toISOString(),
      durationMs: deterministic ? 0 : Math.round(performance.now() - started),
      profile: null,
      enabledRuleIds: sortedUnique(enabledRuleIds),
    },
    findings,
    diagnostics: sortedDiagnostics(results, roots),
    totalFiles: files.length,
  });
  const onDisk = new Set(found.map(({ path }) => path));
  /** Also returns true for a path that cannot be checked. Returns false for a path outside the prefix. */
  const exists = (path: string) => {
    const own = prefix.strip(path);
    return own !== undefined && (onDisk.has(own) || mayExist(join(root, own)));
  };
  const isWhole = [...paths, ...include, ...exclude, ...extensions].length === 0;
  return {
    ...{ report, notes, exists },
    unusedSuppressions: results.reduce((sum, { unused = 0 }) => sum + unused, 0),
    /** `undefined` for a file that was not checked to its end. For a deleted file, the rules that would run on it. */
    coverageOf: async (path: string): Promise<FileResult['coverage']> => {
      const own = prefix.strip(path);
      if (own === undefined || exists(path)) return coverage.get(path);
      const file: Place = { kind: 'file', path: own, absolute: join(root, own) };
      const isAsked = starts.some((start) => isNamedBy(start, own)) && isWanted(file, search);
      const rules = isAsked ? await engine.rulesFor(file.absolute).catch(() => []) : [];
      return { ran: new Set(rules), suppressed: [] };
    },
    /** True if the scan checked the file to its end or, as a scan of the whole root, left it out on purpose. */
    isChecked: (path: string) =>
      coverage.has(path) ? coverage.get(path) !== undefined : isWhole && prefix.strip(path) !== undefined,
  };
}

async function lintableFiles(engine: EslintEngine, found: readonly Place[]) {
  const files: Place[] = [];
  const enabledRuleIds = new Set<string>();
  let unconfigured: ConfigMissing | undefined;
  for (const file of found) {
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

/** Lists the scanned files, because patterns cannot express every configuration, and a comparison needs them. */
function scopeOf(
  starts: readonly Place[],
  files: readonly Place[],
  exclude: readonly string[],
  prefix: Prefix,
): Pick<Scan, 'target' | 'include' | 'exclude'> {
  const [only] = starts;
  const isReportPath = (path: string) => pathFault(path) === undefined;
  const isPlain = starts.length === 1 && only !== undefined && only.kind !== 'glob' && isReportPath(only.path);
  const included = files.map(({ path }) => path).filter(isReportPath);
  const kind = isPlain && only.kind === 'file' ? 'file' : 'project';
  return {
    target: { kind, path: prefix.of(isPlain ? only.path : '.') },
    include: sortedUnique(included.map((path) => literalGlob(prefix.of(path)))),
    exclude: sortedUnique(exclude.map((glob) => prefix.ofGlob(normalGlob(glob)))),
  };
}

type Prefix = ReturnType<typeof pathPrefix>;

interface FileResult {
  readonly path: string;
  readonly findings: readonly Finding[];
  readonly diagnostics: readonly Diagnostic[];
  /** Set if the file was checked to its end. */
  readonly coverage?: { readonly ran: ReadonlySet<string>; readonly suppressed: readonly Finding[] };
  readonly unused?: number;
}

/** The longest root is the first. */
function fileScanner(engine: EslintEngine, prefix: Prefix, suppressions: Suppressions, roots: readonly string[]) {
  return async (file: Place): Promise<FileResult> => {
    const path = prefix.of(file.path);
    const invalid = pathFault(path);
    if (invalid !== undefined) {
      const message = `the file name ${JSON.stringify(path)} is not possible in a report: ${invalid}`;
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

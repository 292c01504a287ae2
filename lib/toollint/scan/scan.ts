// The scan: find files, lint each, compare with the baseline, evaluate the gate, filter, number, write down.
//
// One file is in work at a time and its findings go straight to the spool, in canonical order, since files are taken in
// the order of their paths. Memory is therefore that of the linter plus the baseline, whatever the number of findings.
// The quiet filter comes last: it changes what is listed, never a count of the baseline, the gate or the exit code.
import { realpath, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { type Baseline, readBaseline } from '../compare/baseline.ts';
import { errnoOf, ioFailure, ReportFailure, throwIfInterrupted } from '../document/failure.ts';
import { sortedUnique } from '../document/report-path.ts';
import { TOOL_NAME, TOOL_VERSION } from '../document/tool-identity.ts';
import { checkGateNeeds } from '../gate/gate.ts';
import { findFiles, findStarts, type FoundFile, type SearchRequest } from './file-search.ts';
import { mayExist, rulesIfThere } from './known-scope.ts';
import { ConfigMissing, type LintEngine } from './lint-engine.ts';
import { PathPrefix } from './path-prefix.ts';
import { ResultCache } from './result-cache.ts';
import { checkSameFiles } from './scan-baseline.ts';
import type { ScanOptions, ScanOutcome } from './scan-options.ts';
import { ScanRun } from './scan-run.ts';
import { scanScope } from './scan-scope.ts';
import { readSuppressions } from './suppressions.ts';

/** Scans. Throws ReportFailure when it cannot begin, Interrupted when the signal fires; then nothing is left behind. */
export async function scan(options: ScanOptions): Promise<ScanOutcome> {
  const started = performance.now();
  const root = await realRoot(options.root);
  const prefix = new PathPrefix(options.pathPrefix ?? '');
  checkGateNeeds(options.gate, options.baseline !== undefined);
  const engine = await loadEngine(options, root);
  const renames =
    options.renames === undefined
      ? undefined
      : new Map([...options.renames].map(([from, to]) => [prefix.of(from), prefix.of(to)]));
  const baseline = await baselineFor({ ...options, renames });
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
  const found = await findFiles(search, starts);
  const onDisk = new Set(found.map(({ path }) => path));
  const exists = (path: string) => {
    const own = prefix.strip(path);
    return own === undefined || onDisk.has(own) || mayExist(join(root, own));
  };
  if (baseline !== undefined) {
    const isThere = (path: string) => prefix.strip(path) !== undefined && exists(path);
    checkSameFiles(baseline, isThere, new Set(found.map(({ path }) => prefix.of(path))));
  }
  const { files, enabledRuleIds } = await lintableFiles(engine, found);
  const scope = await scanScope({ ...search, starts, found, files, engine, prefix });
  const cache = options.cache === undefined ? undefined : await ResultCache.open(options.cache);
  const suppressions = options.profile === undefined || options.profile === null ? await readSuppressions(root) : {};
  const run = new ScanRun({ options: { ...options, renames }, root, prefix, engine, baseline, cache, suppressions });
  try {
    for (const [index, file] of files.entries()) {
      // Linting never waits for anything, so a signal would not be heard without a turn of the event loop.
      await setImmediate();
      throwIfInterrupted(options.signal);
      await run.take(file);
      options.progress?.(index + 1, files.length, run.found);
    }
    await cache?.save(root);
    for (const id of run.reportedRuleIds) enabledRuleIds.add(id);
    return await run.outcome(
      {
        scopeKnown: true,
        ...scope,
        timestamp: options.timestamp ?? (options.deterministic === true ? new Date(0) : new Date()).toISOString(),
        durationMs: options.deterministic === true ? 0 : Math.round(performance.now() - started),
        profile: options.profile ?? null,
        enabledRuleIds: sortedUnique(enabledRuleIds),
      },
      files.length,
      {
        exists,
        rulesIfThere: async (path) => {
          const own = prefix.strip(path);
          return own === undefined ? [] : rulesIfThere(own, search, starts, engine);
        },
      },
    );
  } catch (cause) {
    await run.spool.close();
    throw cause;
  }
}

async function realRoot(root: string): Promise<string> {
  const status = await stat(root).catch((cause: unknown) => {
    throw ioFailure('scan', root, cause);
  });
  if (!status.isDirectory()) throw new ReportFailure('io', `cannot scan ${root}: it is not a directory`);
  return realpath(root);
}

async function baselineFor({
  baseline,
  profile = null,
  quiet = false,
  renames,
  signal,
}: ScanOptions): Promise<Baseline | undefined> {
  if (baseline === undefined) return undefined;
  return readBaseline(
    baseline,
    { tool: { name: TOOL_NAME, version: TOOL_VERSION }, profile, quiet },
    { renames, signal },
  );
}

async function loadEngine(options: ScanOptions, root: string): Promise<LintEngine> {
  const { profile = null, config, extensions = [] } = options;
  try {
    const { createEngine } = await import('./eslint-engine.ts');
    return await createEngine({ root, profile, config, extensions });
  } catch (cause) {
    const missing =
      cause instanceof Error ? /Cannot find package '(eslint|typescript-eslint)'/u.exec(cause.message)?.[1] : undefined;
    if (errnoOf(cause) !== 'ERR_MODULE_NOT_FOUND' || missing === undefined) throw cause;
    throw new ReportFailure(
      'config',
      'scan needs eslint and typescript-eslint, which are not installed: npm install --save-dev eslint typescript-eslint',
      cause,
    );
  }
}

/** Files that the configuration is for, and the rules that are on for any of them. */
async function lintableFiles(
  engine: LintEngine,
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

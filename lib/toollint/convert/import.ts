// Converts SARIF of other linters to one report. Without its source, a finding is identified by its message. A log may
// name any file, and a report shows source lines, so only files that git tracks are read.
import { resolve } from 'node:path';
import { buildReport, ownTool, UNKNOWN_SCOPE } from '../document/build-report.ts';
import { type DocumentSource, realFolder, textIn } from '../document/document-source.ts';
import { ReportFailure } from '../document/failure.ts';
import { sourceLines } from '../document/fingerprint.ts';
import { compareFindings, descriptions, fileFindings, type LintMessage } from '../document/file-findings.ts';
import { distinct, distinctFindings } from '../document/merge-reports.ts';
import { pathPrefix, sortedUnique } from '../document/report-path.ts';
import type { Diagnostic, Finding } from '../document/report-schema.ts';
import { trackedText } from '../document/source-file.ts';
import { type ForeignMessage, type ForeignRun, importSarif } from './import-sarif.ts';
import { type ForeignPath, placerFor } from './sarif-path.ts';

export interface ImportOptions {
  readonly root: string;
  readonly timestamp?: string | undefined;
  readonly pathPrefix?: string;
  readonly tool?: string | undefined;
}

export function importReports(sources: readonly DocumentSource[], options: ImportOptions) {
  const { root, tool: wanted, timestamp = new Date().toISOString() } = options;
  const all = sources.map(runsIn);
  const logs = all.map((runs) => runs.filter(({ tool }) => wanted === undefined || tool.name === wanted));
  const runs = logs.flat();
  if (wanted !== undefined && runs.length === 0) {
    const names = sortedUnique(all.flat().map(({ tool }) => tool.name)).join(', ');
    throw new ReportFailure('usage', `--tool ${wanted}: there is no run of this tool, only of ${names || 'none'}`);
  }
  const real = realFolder(root);
  const prefix = pathPrefix(options.pathPrefix);
  const messages = runs.flatMap((run) => run.messages);
  const placeOf = placerFor(
    [real, resolve(root)],
    messages.flatMap(({ path }) => path ?? []),
  );
  /** Returns `undefined` for the root itself and for a path outside. */
  const fileOf = (path: ForeignPath | undefined) => {
    const place = path === undefined ? undefined : placeOf(path);
    return place === '.' ? undefined : place;
  };
  const textOf = trackedText(real);
  let outside = 0;
  const aboutProject = (message: ForeignMessage): LintMessage => {
    if (message.path === undefined || placeOf(message.path) !== undefined) return message;
    outside += 1;
    return { ...message, message: `${message.message} (${message.path.whole})`.trim(), messageId: undefined };
  };
  const findingsOf = (run: ForeignRun): Finding[] =>
    [...Map.groupBy(run.messages, ({ path }) => fileOf(path))].flatMap(([file, group]) => {
      const text = file === undefined ? '' : textOf(file);
      const factsOf = (ruleId: string) => run.rules.get(ruleId) ?? {};
      const request = { text, roots: [real], factsOf };
      if (file === undefined) return fileFindings({ ...request, path: file, messages: group.map(aboutProject) });
      const lines = sourceLines(text);
      const inUnits = run.countsCodePoints ? group.map((message) => withUtf16Columns(message, lines)) : group;
      return fileFindings({ ...request, path: prefix.of(file), messages: inUnits });
    });
  // A log that repeats another one, as logs of shards do, adds nothing.
  const lists = logs.map((log) => log.flatMap(findingsOf));
  const findings = (lists.length === 1 ? (lists[0] ?? []) : distinctFindings(lists)).sort(compareFindings);
  const diagnostics = runs.flatMap((run) =>
    run.diagnostics.map(({ path, ...diagnostic }): Diagnostic => {
      const file = fileOf(path);
      if (file !== undefined) return { ...diagnostic, relativePath: prefix.of(file) };
      return path === undefined ? diagnostic : { ...diagnostic, message: `${diagnostic.message} (${path.whole})` };
    }),
  );
  const [linter, ...others] = distinct(runs.map(({ tool }) => tool));
  const texts = runs.map((run) => descriptions(findings, (ruleId) => run.rules.get(ruleId) ?? {}));
  const rules = Object.assign({}, ...texts) as Record<string, string>;
  const seen = new Set([...runs.flatMap(({ paths }) => paths), ...messages.map(({ path }) => path)].map(fileOf));
  seen.delete(undefined);
  const report = buildReport({
    // Runs of one tool keep its name. Others become a report of toollint that lists their tools, as in a merge.
    tool:
      linter === undefined || others.length > 0
        ? ownTool({ linters: linter === undefined ? [] : [linter, ...others], rules })
        : Object.assign({ name: linter.name, version: linter.version }, { linter, rules }),
    scan: { ...UNKNOWN_SCOPE, timestamp, durationMs: 0, profile: null },
    findings,
    diagnostics: distinct(diagnostics),
    // A log without findings may name no file, but the linter did run.
    totalFiles: runs.length === 0 ? 0 : Math.max(1, seen.size),
    suppressed: runs.reduce((sum, { suppressed }) => sum + suppressed, 0),
  });
  const what = outside === 1 ? '1 result is' : `${outside} results are`;
  const note = `${what} outside the root (--root) and listed for the project, with the path in the message`;
  return { report, notes: outside === 0 ? [] : [note] };
}

function runsIn(source: DocumentSource): ForeignRun[] {
  return importSarif(textIn(source), (fault) => {
    throw new ReportFailure('input', `${source.name} cannot be imported from sarif: ${fault}`);
  });
}

function withUtf16Columns(message: ForeignMessage, lines: readonly string[]): LintMessage {
  const { line, column, endLine, endColumn } = message;
  const units = (at: number | undefined, of: number | undefined) => {
    const text = at === undefined ? '' : lines[at - 1];
    return of === undefined || !text ? of : [...text].slice(0, of - 1).join('').length + 1;
  };
  return { ...message, column: units(line, column), endColumn: units(endLine ?? line, endColumn) };
}

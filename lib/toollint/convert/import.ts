// Converts SARIF of other linters to one report. Without its source, a finding is identified by its message. A log may
// name any file, and a report shows source lines, so only files that git tracks are read.
import { resolve } from 'node:path';
import { buildReport, UNKNOWN_SCOPE } from '../document/build-report.ts';
import { type DocumentSource, realFolder, textIn } from '../document/document-source.ts';
import { messageOf, type Pause, pausesFor, ReportFailure } from '../document/failure.ts';
import { LINE_END, sourceLines } from '../document/fingerprint.ts';
import { compareFindings, descriptions, fileFindings, type LintMessage } from '../document/file-findings.ts';
import { distinct, distinctFindings, mergedTool } from '../document/merge-reports.ts';
import { pathPrefix, sortedUnique } from '../document/report-path.ts';
import type { Diagnostic, Finding } from '../document/report-schema.ts';
import { trackedText } from '../document/source-file.ts';
import * as sarif from './sarif-log.ts';
import { placerFor, type SarifPath } from './sarif-path.ts';
import { readRun, type SarifMessage, type SarifRun } from './sarif-run.ts';

/** So many results of a file at most are converted between two checks of the signal. */
const GROUP_MAX = 4096;

export interface ImportOptions {
  readonly root: string;
  readonly timestamp?: string | undefined;
  readonly pathPrefix?: string;
  readonly tool?: string | undefined;
  readonly acceptFailedRun?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
}

export async function importReports(sources: readonly DocumentSource[], options: ImportOptions) {
  const { root, tool: wanted, timestamp = new Date().toISOString(), acceptFailedRun = false } = options;
  const pause = pausesFor(options.signal);
  const all: SarifRun[][] = [];
  for (const source of sources) all.push(await runsIn(source, acceptFailedRun, pause));
  const logs = all.map((runs) => runs.filter(({ tool }) => wanted === undefined || tool.name === wanted));
  const runs = logs.flat();
  if (wanted !== undefined && runs.length === 0) {
    const names = sortedUnique(all.flat().map(({ tool }) => tool.name)).join(', ');
    throw new ReportFailure('usage', `--tool ${wanted}: there is no run of this tool, only of ${names || 'none'}`);
  }
  const real = realFolder(root);
  const prefix = pathPrefix(options.pathPrefix);
  const messages = runs.flatMap((run) => run.messages);
  const places = messages.flatMap(({ path }) => path ?? []);
  const placeOf = placerFor([real, resolve(root)], places);
  await pause();
  /** Returns `undefined` for the root itself and for a path outside. */
  const fileOf = (path: SarifPath | undefined) => {
    const place = path === undefined ? undefined : placeOf(path);
    return place === '.' ? undefined : place;
  };
  const notes: string[] = [];
  const textOf = trackedText(real, (cause) => notes.push(`source lines are not read, because ${messageOf(cause)}`));
  const aboutProject = ({ path, ...message }: SarifMessage): LintMessage =>
    path === undefined || placeOf(path) !== undefined
      ? message
      : { ...message, message: `${message.message} (${path.whole})`.trim(), messageId: undefined };
  const findingsOf = (run: SarifRun, file: string | undefined, group: readonly SarifMessage[]): Finding[] => {
    const text = file === undefined ? '' : textOf(file);
    const own = file === undefined ? group.map(aboutProject) : positioned(group, text, run.countsCodePoints);
    const path = file === undefined ? undefined : prefix.of(file);
    return fileFindings({ path, text, roots: [real], messages: own, factsOf: (id) => run.rules.get(id) ?? {} });
  };
  // A log that repeats another one, as logs of shards do, adds nothing.
  const lists = logs.map((): Finding[] => []);
  for (const [index, log] of logs.entries())
    for (const run of log)
      for (const [file, group] of Map.groupBy(run.messages, ({ path }) => fileOf(path)))
        for (let at = 0; at < group.length; at += GROUP_MAX) {
          for (const finding of findingsOf(run, file, group.slice(at, at + GROUP_MAX))) lists[index]?.push(finding);
          await pause();
        }
  const findings = (lists.length === 1 ? (lists[0] ?? []) : distinctFindings(lists)).sort(compareFindings);
  await pause();
  const diagnosticOf = ({ path, ...diagnostic }: SarifRun['diagnostics'][number]): Diagnostic => {
    const file = fileOf(path);
    if (file !== undefined) return { ...diagnostic, relativePath: prefix.of(file) };
    return path === undefined ? diagnostic : { ...diagnostic, message: `${diagnostic.message} (${path.whole})` };
  };
  const diagnostics = runs.flatMap((run) => run.diagnostics.map(diagnosticOf));
  // The absence of a run is not a pass.
  for (const [index, { name }] of sources.entries())
    if (all[index]?.length === 0 && runs.length > 0)
      diagnostics.push({ kind: 'rule-error', message: `${name} has no runs` });
  const files = new Set([...runs.flatMap(({ paths }) => paths), ...places].map(fileOf));
  files.delete(undefined);
  const report = buildReport({
    tool: mergedTool(runs.map((run) => toolOf(run, findings))),
    scan: { ...UNKNOWN_SCOPE, timestamp, durationMs: 0, profile: null },
    findings,
    diagnostics: distinct(diagnostics),
    // A log without findings may name no file, but the linter did run.
    totalFiles: runs.length === 0 ? 0 : Math.max(1, files.size),
    suppressed: runs.reduce((sum, { suppressed }) => sum + suppressed, 0),
  });
  await pause();
  const outside = places.filter((path) => placeOf(path) === undefined).length;
  return { report, notes: [...runs.flatMap((run) => run.notes), ...outsideNotes(outside), ...notes] };
}

function outsideNotes(count: number): string[] {
  const what = count === 1 ? '1 result is' : `${count} results are`;
  const note = `${what} outside the root (--root) and listed for the project, with the path in the message`;
  return count === 0 ? [] : [note];
}

function toolOf({ tool: linter, rules }: SarifRun, findings: readonly Finding[]) {
  const { name, version } = linter;
  return { name, version, linter, rules: descriptions(findings, (id) => rules.get(id) ?? {}) };
}

async function runsIn(source: DocumentSource, acceptFailedRun: boolean, pause: Pause) {
  const refuse = (fault: string): never => {
    throw new ReportFailure('input', `${source.name} cannot be imported from sarif: ${fault}`);
  };
  const runs: SarifRun[] = [];
  for (const run of await sarif.runsIn(textIn(source), refuse, pause))
    runs.push(await readRun(run, acceptFailedRun, pause));
  return runs;
}

/** Counts columns in UTF-16 units, and finds the lines of regions that have only an offset. */
function positioned(messages: readonly SarifMessage[], text: string, countsCodePoints: boolean): LintMessage[] {
  const lines = sourceLines(text);
  const starts = [0, ...Array.from(text.matchAll(LINE_END), ({ 0: end, index }) => index + end.length)];
  const units = (at: number | undefined, of: number | undefined) => {
    const line = at === undefined || !countsCodePoints ? '' : lines[at - 1];
    return of === undefined || !line ? of : [...line].slice(0, of - 1).join('').length + 1;
  };
  const position = (offset: number): [line: number, column: number] => {
    const line = starts.findLastIndex((start) => start <= offset) + 1;
    return [line, offset - (starts[line - 1] ?? 0) + 1];
  };
  return messages.map(({ offset = -1, length = 0, ...message }) => {
    const { line, column, endLine, endColumn } = message;
    if (line !== undefined || offset < 0 || offset >= text.length)
      return { ...message, column: units(line, column), endColumn: units(endLine, endColumn) };
    const [first, last] = [position(offset), position(offset + length)];
    return { ...message, line: first[0], column: first[1], endLine: last[0], endColumn: last[1] };
  });
}

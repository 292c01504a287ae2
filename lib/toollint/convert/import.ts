// Converts SARIF of other linters to one report.
//
// Reads the source files below the root to compute fingerprints. Without its source, a finding is identified by its
// message. A log may name any file, and a report shows source lines, so only files that git tracks are read.
import { resolve } from 'node:path';
import { summaryOf, UNKNOWN_SCOPE } from '../document/consistency.ts';
import { type DocumentSource, realFolder, textIn } from '../document/document-source.ts';
import { ReportFailure } from '../document/failure.ts';
import {
  compareFindings,
  descriptions,
  fileFindings,
  type LintMessage,
  numberOccurrences,
} from '../document/file-findings.ts';
import { distinct, distinctFindings } from '../document/merge-reports.ts';
import { SCHEMA_VERSION, TOOL_NAME, TOOL_VERSION } from '../document/report-format.ts';
import { PathPrefix, sortedUnique } from '../document/report-path.ts';
import type { Diagnostic, Finding, Report } from '../document/report-schema.ts';
import { TrackedFiles } from '../document/source-file.ts';
import { type ForeignMessage, type ForeignRun, importSarif } from './import-sarif.ts';
import { type ForeignPath, PathPlacer } from './sarif-path.ts';

export interface ImportOptions {
  /** The folder that the linters ran in. */
  readonly root: string;
  readonly timestamp?: string | undefined;
  readonly pathPrefix?: string;
  /** Takes only the runs of this tool. */
  readonly tool?: string | undefined;
}

export interface Imported {
  readonly report: Report;
  readonly notes: string[];
  readonly suppressed: number;
}

/** Throws ReportFailure ('input') for an invalid document. */
export function importReports(sources: readonly DocumentSource[], options: ImportOptions): Imported {
  const logs = sources.map((source) => ({ source, runs: runsIn(source) }));
  const all = logs.flatMap(({ runs }) => runs);
  const { tool: wanted } = options;
  const isWanted = ({ tool }: ForeignRun) => wanted === undefined || tool.name === wanted;
  const runs = all.filter(isWanted);
  if (wanted !== undefined && runs.length === 0) {
    const names = sortedUnique(all.map(({ tool }) => tool.name)).join(', ');
    throw new ReportFailure('usage', `--tool ${wanted}: there is no run of this tool, only of ${names || 'none'}`);
  }
  const work = new ImportWork(runs, options);
  // A log that repeats another one, as logs of shards do, adds nothing.
  const lists = logs.map((log) => log.runs.filter(isWanted).flatMap((run) => work.findingsOf(run)));
  const findings = (lists.length === 1 ? (lists[0] ?? []) : distinctFindings(lists)).sort(compareFindings);
  numberOccurrences(findings);
  const diagnostics = distinct(runs.flatMap((run) => work.diagnosticsOf(run)));
  const suppressed = runs.reduce((sum, run) => sum + run.suppressed, 0);
  const isEmpty = runs.length === 0;
  const noRun: Diagnostic[] = isEmpty ? [{ kind: 'no-files', message: 'the log has no run' }] : [];
  // A log without findings may name no file, but the linter did run.
  const summary = summaryOf(isEmpty ? 0 : Math.max(1, work.paths.size), findings, diagnostics);
  const report: Report = {
    schemaVersion: SCHEMA_VERSION,
    tool: toolOf(runs, findings),
    execution: {
      status: isEmpty ? 'no-files' : diagnostics.length > 0 ? 'incomplete' : 'complete',
      diagnostics: [...diagnostics, ...noRun],
    },
    scan: { ...UNKNOWN_SCOPE, timestamp: options.timestamp ?? new Date().toISOString(), durationMs: 0, profile: null },
    selection: { quiet: false },
    gate: { status: 'not-evaluated' },
    summary: suppressed === 0 ? summary : Object.assign(summary, { suppressed }),
    findings,
  };
  return { report, notes: work.notes(), suppressed };
}

function runsIn(source: DocumentSource): ForeignRun[] {
  return importSarif(textIn(source), (fault) => {
    throw new ReportFailure('input', `${source.name} cannot be imported from sarif: ${fault}`);
  });
}

/** Runs of one tool keep its name. Others become a report of toollint that lists their tools, as in a merge. */
function toolOf(runs: readonly ForeignRun[], findings: readonly Finding[]): Report['tool'] {
  const linters = distinct(runs.map(({ tool }) => tool));
  const rules: Record<string, string> = {};
  for (const run of runs)
    Object.assign(
      rules,
      descriptions(findings, (ruleId) => run.rules.get(ruleId) ?? {}),
    );
  const [linter] = linters;
  if (linter === undefined || linters.length > 1)
    return Object.assign({ name: TOOL_NAME, version: TOOL_VERSION }, { linters, rules });
  return Object.assign({ name: linter.name, version: linter.version }, { linter, rules });
}

class ImportWork {
  readonly paths = new Set<string>();
  readonly #root: string;
  readonly #prefix: PathPrefix;
  readonly #placer: PathPlacer;
  readonly #tracked: TrackedFiles;
  #outside = 0;

  constructor(runs: readonly ForeignRun[], { root, pathPrefix = '' }: ImportOptions) {
    this.#root = realFolder(root);
    this.#prefix = new PathPrefix(pathPrefix);
    this.#tracked = new TrackedFiles(this.#root);
    const paths = runs.flatMap(({ messages }) => messages.flatMap(({ path }) => path ?? []));
    this.#placer = new PathPlacer([this.#root, resolve(root)], paths);
    for (const run of runs) for (const path of run.paths) this.#see(this.#placer.place(path));
  }

  findingsOf({ messages, rules }: ForeignRun): Finding[] {
    const placed = messages.map((message) => ({ message, path: this.#placeOf(message.path) }));
    const findings: Finding[] = [];
    for (const [path, group] of Map.groupBy(placed, (one) => one.path)) {
      this.#see(path);
      const text = path === undefined ? '' : this.#tracked.textOf(path);
      const lines = text.split('\n');
      const request = {
        path: path === undefined ? undefined : this.#prefix.of(path),
        text,
        messages: group.map(({ message }) => this.#messageFor(message, path, lines)),
        roots: [this.#root],
        factsOf: (ruleId: string) => rules.get(ruleId) ?? {},
      };
      for (const finding of fileFindings(request)) findings.push(finding);
    }
    return findings;
  }

  diagnosticsOf({ diagnostics }: ForeignRun): Diagnostic[] {
    return diagnostics.map(({ diagnostic, path }) => {
      const own = this.#placeOf(path);
      if (own !== undefined) return { ...diagnostic, relativePath: this.#prefix.of(own) };
      return path === undefined ? diagnostic : { ...diagnostic, message: `${diagnostic.message} (${path.whole})` };
    });
  }

  notes(): string[] {
    if (this.#outside === 0) return [];
    const what = this.#outside === 1 ? '1 result is' : `${this.#outside} results are`;
    return [`${what} outside the root (--root) and listed for the project, with the path in the message`];
  }

  #placeOf(path: ForeignPath | undefined): string | undefined {
    const place = path === undefined ? undefined : this.#placer.place(path);
    return place === '.' ? undefined : place;
  }

  #see(path: string | undefined): void {
    if (path !== undefined && path !== '.') this.paths.add(path);
  }

  #messageFor(message: ForeignMessage, path: string | undefined, lines: readonly string[]): LintMessage {
    if (path !== undefined) return withUtf16Columns(message, lines);
    if (message.path === undefined || this.#placer.place(message.path) !== undefined) return message;
    this.#outside += 1;
    return { ...message, message: `${message.message} (${message.path.whole})`.trim(), messageId: undefined };
  }
}

function withUtf16Columns(message: ForeignMessage, lines: readonly string[]): LintMessage {
  const { line, column, endLine, endColumn, countsCodePoints } = message;
  if (line === undefined || !countsCodePoints || lines.length < 2) return message;
  const units = (at: number | undefined, of: number | undefined) =>
    at === undefined || of === undefined ? of : [...(lines[at - 1] ?? '')].slice(0, of - 1).join('').length + 1;
  return { ...message, column: units(line, column), endColumn: units(endLine ?? line, endColumn) };
}

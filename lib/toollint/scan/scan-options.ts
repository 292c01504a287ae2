// The options of a scan, its results, and its view of a linted file.
import type { Linter } from '../document/extension.ts';
import { ReportFailure } from '../document/failure.ts';
import type { LintMessage } from '../document/file-findings.ts';
import type { Diagnostic, Finding, Scan } from '../document/report-schema.ts';

export interface AnalysisOptions {
  /** Report paths are relative to it. */
  readonly root: string;
  /** What `paths` are relative to. Default: the root. */
  readonly cwd?: string;
  /** Files, folders and patterns; default: the root. */
  readonly paths?: readonly string[];
  readonly include?: readonly string[];
  readonly exclude?: readonly string[];
  /** File name endings without dot; default: what the configuration says. */
  readonly extensions?: readonly string[];
  /** Configuration file to use in place of the target's own, absolute. */
  readonly config?: string | undefined;
  /** Put before every path of the report. */
  readonly pathPrefix?: string;
  /** Default: now. */
  readonly timestamp?: string | undefined;
  /** Duration 0, and the beginning of 1970 if no timestamp is given. */
  readonly deterministic?: boolean;
  readonly signal?: AbortSignal | undefined;
  /** Called after each file. */
  readonly progress?: (done: number, total: number, findings: number) => void;
}

/** How far a file was checked. */
export interface Coverage {
  /** The rules that ran to the end of the file. */
  readonly ran: ReadonlySet<string>;
  /** Findings that a comment or a suppression hides. */
  readonly suppressed: readonly Finding[];
}

/** The result of a scan before any baseline, gate or filter. */
export interface Analysis {
  /** In canonical order, not yet numbered. */
  readonly findings: Finding[];
  readonly diagnostics: Diagnostic[];
  readonly totalFiles: number;
  readonly scan: Scan;
  readonly linter: Linter;
  /** Descriptions of the rules that have findings. */
  readonly rules: Readonly<Record<string, string>>;
  /** Sentences for standard error. */
  readonly notes: string[];
  /** Whether a report path exists, or that is unknown; false outside the prefix. */
  exists(path: string): boolean;
  /**
   * How far the file at a report path was checked; a deleted file counts as checked by the rules that would be on for
   * it. undefined if it was not checked.
   */
  coverageOf(path: string): Promise<Coverage | undefined>;
}

/** A file has no configuration. */
export class ConfigMissing extends ReportFailure {}

export interface RuleCrash {
  readonly ruleId: string;
  readonly message: string;
}

export interface LintedFile {
  readonly messages: readonly LintMessage[];
  /** Messages that a comment or a suppression hides. */
  readonly suppressed: readonly LintMessage[];
  /** The rules that ran to the end of the file, with the check of unused directives as one of them. */
  readonly ran: readonly string[];
  readonly crashes: readonly RuleCrash[];
  /** Set if the linter itself threw. */
  readonly failure?: string;
}

export type EngineOptions = Pick<AnalysisOptions, 'root' | 'config' | 'extensions'>;

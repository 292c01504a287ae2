// What a scan is given, what it needs of a linter in words of its own, and what it learns.
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
  /** Absolute path of ESLint's cache. */
  readonly cache?: string | undefined;
  /** Put before every path of the report. */
  readonly pathPrefix?: string;
  /** Default: now. */
  readonly timestamp?: string | undefined;
  /** Duration 0, and the beginning of 1970 where no timestamp is given. */
  readonly deterministic?: boolean;
  /** Source lines and fixes in the findings; default true. */
  readonly snippets?: boolean;
  readonly signal?: AbortSignal | undefined;
  /** Called after each file. */
  readonly progress?: (done: number, total: number, findings: number) => void;
}

/** How a file was looked at. */
export interface Coverage {
  /** The rules that ran to the end of the file. */
  readonly ran: ReadonlySet<string>;
  /** Findings that a comment or a suppression took back. */
  readonly suppressed: readonly Finding[];
}

/** All that a scan has found, before any baseline, gate or filter. */
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
  /** The paths of the report that were looked for on the disk; only these can be compared. */
  readonly paths: ReadonlySet<string>;
  /** Whether something is at a path of the report, or whether that is unknown; false outside the prefix. */
  exists(path: string): boolean;
  /**
   * How a path of the report was looked at. A file that is gone counts as looked at by the rules that would be on for
   * it; undefined: nothing looked at it.
   */
  coverageOf(path: string): Promise<Coverage | undefined>;
}

/** There is no configuration for a file. */
export class ConfigMissing extends ReportFailure {}

/** A rule that threw while it looked at one file. */
export interface RuleCrash {
  readonly ruleId: string;
  readonly message: string;
}

export interface LintedFile {
  readonly messages: readonly LintMessage[];
  /** Messages that a comment or a suppression takes back. */
  readonly suppressed: readonly LintMessage[];
  /**
   * The rules that looked at the file to its end: neither off, by configuration or comment, nor thrown. The check of
   * unused directives is one of them. undefined: the messages come from the linter's cache, which does not know.
   */
  readonly ran: readonly string[] | undefined;
  /** Their messages are missing; those of all other rules are there. */
  readonly crashes: readonly RuleCrash[];
  /** Set when the linter itself threw: nothing is known of the file. */
  readonly failure?: string;
}

export type EngineOptions = Pick<AnalysisOptions, 'root' | 'config' | 'extensions'>;

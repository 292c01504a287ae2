import type { Linter } from '../document/extension.ts';
import { ReportFailure } from '../document/failure.ts';
import type { LintMessage } from '../document/file-findings.ts';
import type { Diagnostic, Finding, Scan } from '../document/report-schema.ts';

export interface AnalysisOptions {
  readonly root: string;
  /** The folder that `paths` are relative to. Default: the root. */
  readonly cwd?: string;
  /** Files, folders and patterns. Default: the root. */
  readonly paths?: readonly string[];
  readonly include?: readonly string[];
  readonly exclude?: readonly string[];
  /** Extensions without the dot. Default: those of the configuration. */
  readonly extensions?: readonly string[];
  /** An absolute path. This file replaces the target's own configuration. */
  readonly config?: string | undefined;
  readonly pathPrefix?: string;
  readonly timestamp?: string | undefined;
  /** Writes 0 as the duration and, without a timestamp, 1970 as the time. */
  readonly deterministic?: boolean;
  readonly signal?: AbortSignal | undefined;
  readonly progress?: (done: number, total: number, findings: number) => void;
}

export interface Coverage {
  readonly ran: ReadonlySet<string>;
  readonly suppressed: readonly Finding[];
}

export interface Analysis {
  readonly findings: Finding[];
  readonly diagnostics: Diagnostic[];
  readonly totalFiles: number;
  readonly scan: Scan;
  readonly linter: Linter;
  readonly rules: Readonly<Record<string, string>>;
  readonly notes: string[];
  /** The number of entries of eslint-suppressions.json that no longer occur, for which ESLint fails. */
  readonly unusedSuppressions: number;
  /** Also returns true for a path that cannot be checked. Returns false for a path outside the prefix. */
  exists(path: string): boolean;
  /**
   * Returns `undefined` if the file was not checked to its end. For a deleted file, returns the rules that would run
   * on it.
   */
  coverageOf(path: string): Promise<Coverage | undefined>;
  /** True if the scan checked the file to its end or, as a scan of the whole root, left it out on purpose. */
  isChecked(path: string): boolean;
}

export class ConfigMissing extends ReportFailure {}

export interface RuleCrash {
  readonly ruleId: string;
  readonly message: string;
}

export interface LintedFile {
  readonly messages: readonly LintMessage[];
  readonly suppressed: readonly LintMessage[];
  /** The rules that ran to the end of the file, including the check for unused directives. */
  readonly ran: readonly string[];
  readonly crashes: readonly RuleCrash[];
  readonly failure?: string;
}

export type EngineOptions = Pick<AnalysisOptions, 'root' | 'config' | 'extensions'>;

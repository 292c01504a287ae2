// What a scan is told and what it gives back.
import type { ByteSource } from '../document/byte-source.ts';
import type { ReportSource } from '../document/report-source.ts';
import type { GateConfig } from '../gate/gate-config.ts';

/** What to scan and how. */
export interface ScanOptions {
  /** Report paths are relative to it. */
  readonly root: string;
  /** What `paths` are relative to; where nothing is there, the root. Default: the root. */
  readonly cwd?: string;
  /** Files, folders and patterns; default: the root. */
  readonly paths?: readonly string[];
  readonly include?: readonly string[];
  readonly exclude?: readonly string[];
  /** File name endings without dot; default: what the configuration says. */
  readonly extensions?: readonly string[];
  /** A bundled profile; null or absent: the target's own configuration. */
  readonly profile?: string | null;
  /** Configuration file to use in place of the target's own, absolute. */
  readonly config?: string | undefined;
  readonly quiet?: boolean;
  readonly baseline?: ByteSource | undefined;
  /** Old path -> new path, for the baseline's findings. */
  readonly renames?: ReadonlyMap<string, string> | undefined;
  /** Also make the baseline without what is fixed. */
  readonly updateBaseline?: boolean;
  /** Absolute path of the file that keeps results from one scan to the next. */
  readonly cache?: string | undefined;
  /** Put before every path of the report. */
  readonly pathPrefix?: string;
  readonly gate?: GateConfig | undefined;
  /** Default: now. */
  readonly timestamp?: string | undefined;
  /** Duration 0, and the beginning of 1970 where no timestamp is given. */
  readonly deterministic?: boolean;
  /** Source lines in the findings; default true. */
  readonly snippets?: boolean;
  readonly signal?: AbortSignal | undefined;
  /** Called after each file. */
  readonly progress?: (done: number, total: number, findings: number) => void;
}

/** A finished scan. `close` removes what it holds on disk. */
export interface ScanOutcome {
  readonly report: ReportSource;
  /** Findings of severity error that count: after the baseline, before the quiet filter. */
  readonly errors: number;
  /** Sentences for standard error. */
  readonly notes: string[];
  /** Name and version of the linter. */
  readonly linter: string;
  /** The baseline without what is fixed, where it was asked for and the analysis ran to its end. */
  readonly updatedBaseline?: ReportSource;
  close(): Promise<void>;
}

// What a scan needs of a linter, in its own words; eslint-engine.ts is the only implementation. Keeping the words apart
// lets every other verb run without ESLint.
import { ReportFailure } from '../document/failure.ts';
import type { Linter } from '../document/extension.ts';
import type { LintMessage, RuleFacts } from '../document/file-findings.ts';

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

/** A configured linter. Paths are absolute. */
export interface LintEngine {
  readonly linter: Linter;
  /** Sentences for standard error. */
  readonly notes: readonly string[];
  /** Rules that threw nearly everywhere and are no longer run. */
  readonly givenUp: ReadonlySet<string>;
  /** Rules that are on for the file; undefined: it is not for linting. Throws ReportFailure ('config'). */
  rulesFor(path: string): Promise<readonly string[] | undefined>;
  isIgnored(path: string): Promise<boolean>;
  /** Whether the configuration around a folder with one of its own ignores it. */
  isFolderIgnored(path: string): Promise<boolean>;
  /** Lints one file's text. A rule that throws costs only itself. */
  lint(path: string, text: string): Promise<LintedFile>;
  /** Lints all files with the linter's own cache; undefined when a rule threw: then nothing is known. */
  lintCached(paths: readonly string[], cache: string): Promise<Map<string, LintedFile> | undefined>;
  factsOf(ruleId: string): RuleFacts;
}

/** How to make an engine. */
export interface EngineOptions {
  readonly root: string;
  /** Absolute path of a configuration to use in place of the target's own. */
  readonly config?: string | undefined;
  /** File name endings without dot, to be linted besides what the configuration names. */
  readonly extensions: readonly string[];
}

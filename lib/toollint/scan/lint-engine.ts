// What a scan needs of a linter, in its own words; eslint-engine.ts is the one that there is. Keeping the words apart
// keeps the linter an optional peer: nothing but that one file names it.
import type { FlaggedRange } from '../document/fingerprint.ts';

/** One message of the linter about one file. Positions are as the linter gave them and may be odd. */
export interface EngineMessage extends FlaggedRange {
  /** null: the message is the linter's own. */
  readonly ruleId: string | null;
  readonly severity: 'error' | 'warning';
  readonly message: string;
  /** Stable name of the message within its rule, where the rule has one. */
  readonly messageId?: string | undefined;
  /** The file does not parse. */
  readonly fatal: boolean;
  readonly suggestion?: string | undefined;
}

/** What a rule says of itself. */
export interface RuleFacts {
  readonly docsUrl?: string | undefined;
  /** 'problem', 'suggestion' or 'layout'. */
  readonly category?: string | undefined;
}

/** A rule that threw while it looked at one file. */
export interface RuleCrash {
  readonly ruleId: string;
  readonly message: string;
}

export interface LintedFile {
  readonly messages: EngineMessage[];
  /** Their messages are missing; those of all other rules are there. */
  readonly crashes: RuleCrash[];
  /** Set when the linter itself threw: nothing is known of the file. */
  readonly failure?: string;
}

/** Patterns by which the configuration chooses files, relative to the root. */
export interface FileChoice {
  readonly include: string[];
  readonly exclude: string[];
}

/** A configured linter. Paths are absolute. */
export interface LintEngine {
  /** Ids of the rules that are on for the file; undefined: the file is not for linting. Throws ReportFailure ('config'). */
  rulesFor(path: string): Promise<readonly string[] | undefined>;
  /** Lints one file's text. A rule that throws costs only itself. */
  lint(path: string, text: string): Promise<LintedFile>;
  factsOf(ruleId: string): RuleFacts;
  /** undefined: the patterns cannot be told. */
  fileChoice(paths: readonly string[]): Promise<FileChoice | undefined>;
}

/** How to make an engine. */
export interface EngineOptions {
  readonly root: string;
  /** A bundled profile; null: the target's own configuration. */
  readonly profile: string | null;
  /** Absolute path of a configuration to use in place of the target's own. */
  readonly config?: string | undefined;
  /** File name endings without dot, to be linted besides what the configuration names. */
  readonly extensions: readonly string[];
}

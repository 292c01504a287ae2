// What a scan needs of a linter, in its own words; eslint-engine.ts is the one that there is. Keeping the words apart
// keeps the linter an optional peer: nothing but the two files around ESLint names it.
import { ReportFailure } from '../document/failure.ts';
import type { FlaggedRange } from '../document/fingerprint.ts';

/** The id under which a comment is reported that switches off what would not be reported. */
export const UNUSED_DIRECTIVE_RULE = 'eslint/unused-disable-directive';

/** No configuration is there for a file. */
export class ConfigMissing extends ReportFailure {}

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
  readonly messages: readonly EngineMessage[];
  /** Messages that a comment or a suppression takes back. */
  readonly suppressed: readonly EngineMessage[];
  /** The rules that looked at the file to its end: neither off, by configuration or comment, nor thrown. The check of
   *  unused directives is one of them. */
  readonly ran: readonly string[];
  /** Their messages are missing; those of all other rules are there. */
  readonly crashes: readonly RuleCrash[];
  /** Set when the linter itself threw: nothing is known of the file. */
  readonly failure?: string;
}

/** Patterns by which the configuration chooses files, relative to the root. */
export interface FileChoice {
  readonly include: readonly string[];
  readonly exclude: readonly string[];
}

/** A configured linter. Paths are absolute. */
export interface LintEngine {
  /** Name and version, for the person at the terminal. */
  readonly name: string;
  /** Sentences for standard error. */
  readonly notes: readonly string[];
  /** Rules that threw nearly everywhere and are no longer run. */
  readonly givenUp: ReadonlySet<string>;
  /** Rules that are on for the file; undefined: it is not for linting. Throws ReportFailure ('config'). */
  rulesFor(path: string): Promise<readonly string[] | undefined>;
  /** Counts a file that was not linted now because its messages are known. */
  remember(ran: readonly string[]): void;
  /** Lints one file's text. A rule that throws costs only itself. */
  lint(path: string, text: string): Promise<LintedFile>;
  factsOf(ruleId: string): RuleFacts;
  /** undefined: the patterns cannot be told. */
  fileChoice(paths: readonly string[]): Promise<FileChoice | undefined>;
  /**
   * What, beside its bytes, the file's messages depend on, as a text; undefined where that cannot be told, because
   * rules look at other files or the configuration has parts without a name.
   */
  settingsOf(path: string): Promise<string | undefined>;
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

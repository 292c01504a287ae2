// Fact: one call for 3,000 files with 240,000 findings needs 626 MB, because ESLint keeps every result. Choice: one
// call per file. Effect: 171 MB and 14 % more time, and a rule that throws affects only one file.
import { statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import type * as eslint from 'eslint';
import { type LintMessage, type RuleFacts, UNUSED_DIRECTIVE_RULE } from '../document/file-findings.ts';
import type { Linter } from '../document/extension.ts';
import { messageOf, ReportFailure } from '../document/failure.ts';
import { withoutRoots } from '../document/report-path.ts';
import type { AnalysisOptions } from './file-search.ts';

const OTHER_LINTERS = '; for the SARIF of other linters, use toollint import --from sarif FILE';

export class ConfigMissing extends ReportFailure {}

type EngineOptions = Pick<AnalysisOptions, 'root' | 'config' | 'extensions'>;

interface ResolvedConfig {
  readonly rules?: Readonly<Record<string, eslint.Linter.RuleEntry>>;
  readonly linterOptions?: { readonly reportUnusedDisableDirectives?: unknown };
  readonly plugins?: Readonly<Record<string, { readonly rules?: Readonly<Record<string, eslint.Rule.RuleModule>> }>>;
}

export class EslintEngine {
  readonly linter: Linter;
  readonly #options: EngineOptions;
  readonly #ESLint: typeof eslint.ESLint;
  readonly #eslint: eslint.ESLint;
  readonly #configs = new Set<ResolvedConfig>();
  readonly #ruleIds = new Set<string>();
  /** The rules that threw in the current file, with their messages. */
  readonly #crashes = new Map<string, string>();
  /** The only rule that runs, '' for none. */
  #alone: string | undefined;

  constructor(options: EngineOptions) {
    if (options.config !== undefined && statSync(options.config, { throwIfNoEntry: false })?.isFile() !== true)
      throw new ReportFailure('config', `there is no configuration file ${options.config}`);
    this.#options = options;
    const { ESLint, version } = eslintFor(options.root);
    this.#ESLint = ESLint;
    this.linter = { name: 'ESLint', version, informationUri: 'https://eslint.org' };
    this.#eslint = this.#create({
      // ESLint calls the filter for every enabled rule in every run, so one instance serves all runs.
      ruleFilter: ({ ruleId }) => {
        const runs = this.#alone === undefined ? !this.#crashes.has(ruleId) : ruleId === this.#alone;
        if (runs) this.#ruleIds.add(ruleId);
        return runs;
      },
    });
  }

  /** Returns `undefined` if the file has no configuration. Throws ReportFailure ('config'). */
  async rulesFor(path: string): Promise<readonly string[] | undefined> {
    const config = await this.#configFor(path);
    if (config === undefined) return undefined;
    this.#configs.add(config);
    return Object.entries(config.rules ?? {}).flatMap(([id, entry]) => (isOn(entry) ? id : []));
  }

  /** Returns the configuration of the files in a folder, if there is one. */
  async configOf(folder: string): Promise<string | undefined> {
    return this.#eslint.findConfigFile(join(folder, 'x')).catch(() => undefined);
  }

  async isFolderIgnored(path: string): Promise<boolean> {
    // ESLint looks for the configuration of a path in its parent folder.
    const config = await this.#eslint.findConfigFile(path);
    if (config === undefined || config === (await this.#eslint.findConfigFile(join(path, 'x')))) return false;
    // ESLint also calls a file ignored if no configuration matches it, so this configuration matches every file.
    const overrideConfig = [{ files: [() => true] as never }];
    const around = this.#create({ cwd: dirname(config), overrideConfigFile: config, overrideConfig });
    return around.isPathIgnored(join(path, 'x'));
  }

  /** If a rule throws, the file is linted again without it, so that only its own findings are missing. */
  async lint(path: string, text: string) {
    this.#crashes.clear();
    for (;;) {
      try {
        this.#ruleIds.clear();
        const [result] = await this.#eslint.lintText(text, { filePath: path });
        const config = await this.#configFor(path);
        const checked = isOn(config?.linterOptions?.reportUnusedDisableDirectives) && this.#crashes.size === 0;
        const { messages = [], suppressedMessages = [] } = result ?? {};
        return {
          ...{ messages: messages.map(engineMessage), suppressed: suppressedMessages.map(engineMessage) },
          /** The rules that ran to the end of the file, including the check for unused directives. */
          ran: [...this.#ruleIds, ...(checked ? [UNUSED_DIRECTIVE_RULE] : [])],
          crashes: [...this.#crashes].map(([ruleId, message]) => ({ ruleId, message })),
        };
      } catch (cause) {
        const named = crashIn(cause);
        const isNew = named.ruleId !== undefined && !this.#crashes.has(named.ruleId);
        const { ruleId, message } = isNew ? named : await this.#searchCrash(path, text);
        if (ruleId === undefined)
          return { messages: [], suppressed: [], ran: [], crashes: [], failure: messageOf(cause) };
        this.#crashes.set(ruleId, message);
      }
    }
  }

  /** Finds a rule that throws a string or null by running one rule at a time. */
  async #searchCrash(path: string, text: string): Promise<Crash> {
    const ids = ((await this.rulesFor(path)) ?? []).filter((id) => !this.#crashes.has(id));
    try {
      for (const id of ['', ...ids]) {
        this.#alone = id;
        const thrown = await this.#eslint.lintText(text, { filePath: path }).then(() => undefined, crashIn);
        // If ESLint throws without rules, no rule is the cause.
        if (thrown !== undefined) return { ruleId: id || undefined, message: thrown.message };
      }
      return { message: '' };
    } finally {
      this.#alone = undefined;
    }
  }

  #create(more: eslint.ESLint.Options): eslint.ESLint {
    const { root, config, extensions = [] } = this.#options;
    return new this.#ESLint({
      cwd: root,
      overrideConfigFile: config ?? null,
      overrideConfig: extensions.map((extension) => ({ files: [`**/*.${extension}`] })),
      warnIgnored: false,
      ...more,
    });
  }

  async #configFor(path: string): Promise<ResolvedConfig | undefined> {
    try {
      return ((await this.#eslint.calculateConfigForFile(path)) as ResolvedConfig | null | undefined) ?? undefined;
    } catch (cause) {
      const { root } = this.#options;
      const message = messageOf(cause);
      if (message.includes('Could not find config file')) {
        const fault = 'no eslint.config.* was found for the files (.eslintrc is not read)';
        const remedy = `write one, or name one with --config${OTHER_LINTERS}`;
        throw new ConfigMissing('config', `${fault}: ${remedy}`, cause);
      }
      throw new ReportFailure('config', `the configuration cannot be used: ${withoutRoots(message, [root])}`, cause);
    }
  }

  factsOf(ruleId: string): RuleFacts {
    const at = ruleId.startsWith('@') ? ruleId.lastIndexOf('/') : ruleId.indexOf('/');
    const [plugin, name] = at < 0 ? ['@', ruleId] : [ruleId.slice(0, at), ruleId.slice(at + 1)];
    const [meta] = [...this.#configs].flatMap(({ plugins }) => plugins?.[plugin]?.rules?.[name]?.meta ?? []);
    const { url = '', description } = meta?.docs ?? {};
    return {
      ...{ category: meta?.type, docsUrl: /^https?:\/\//iu.test(url) ? url : undefined },
      description: typeof description === 'string' ? description : undefined,
    };
  }
}

function isOn(entry: unknown): boolean {
  const level: unknown = Array.isArray(entry) ? entry[0] : entry;
  return level !== 0 && level !== 'off' && level !== undefined;
}

type Crash = { readonly ruleId?: string | undefined; readonly message: string };

/** ESLint names the rule in what it throws. It adds a property, so a thrown string or null appears as a TypeError. */
function crashIn(error: unknown): Crash {
  const text = error instanceof Error ? error.message : String(error);
  if (/^Cannot (?:create|set|read) propert(?:y|ies).*currentNode/u.test(text))
    return { message: 'the rule threw a value that is not an Error' };
  const [first = ''] = text.split(/\r?\n/u);
  const [, named, reason = first] = /^Error while loading rule '([^']+)': (.*)$/u.exec(first) ?? [];
  const own = error instanceof Error && 'ruleId' in error ? error.ruleId : undefined;
  const message = reason.trim() || 'the rule threw an Error without a message';
  return { ruleId: typeof own === 'string' ? own : named, message };
}

function engineMessage(message: eslint.Linter.LintMessage): LintMessage {
  const { ruleId, messageId, line, column, endLine, endColumn, fix, suggestions } = message;
  return {
    ...{ ruleId, messageId, line, column, endLine, endColumn },
    severity: message.severity === 2 ? 'error' : 'warning',
    // The message must not depend on the terminal.
    message: stripVTControlCharacters(message.message),
    fatal: message.fatal === true,
    suggestion: suggestions?.[0]?.desc ?? (fix === undefined ? undefined : 'eslint --fix can fix this.'),
  };
}

/** Prefers the copy that the scanned root resolves, because the root's rules need that version. */
function eslintFor(root: string) {
  const failure = (fault: string, cause?: unknown) => new ReportFailure('config', fault, cause);
  for (const from of [join(root, 'package.json'), import.meta.filename]) {
    const require = createRequire(from);
    const version = versionAt(require);
    if (version === undefined) continue;
    if (Number.parseInt(version, 10) < 9)
      throw failure(`the root has ESLint ${version}, but a scan needs ESLint 9 or 10`);
    try {
      return { ESLint: (require('eslint') as typeof eslint).ESLint, version };
    } catch (cause) {
      // The rest of the message lists the requiring modules.
      throw failure(`ESLint ${version} cannot be loaded: ${messageOf(cause).split(' Require stack:')[0]}`, cause);
    }
  }
  const remedy = `npm install --save-dev eslint${OTHER_LINTERS}`;
  throw failure(`a scan needs ESLint 9 or 10, which is not installed: ${remedy}`);
}

function versionAt(require: NodeJS.Require): string | undefined {
  try {
    return (require('eslint/package.json') as { version: string }).version;
  } catch {
    return undefined;
  }
}

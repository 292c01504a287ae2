// ESLint behind the words of lint-engine.ts. Only this file, eslint-copy.ts and bundled-config.ts name it. It is an
// optional peer: scan.ts loads this file when a scan begins.
//
// Facts measured with ESLint 10.15 on 3,000 files with 240,000 findings: linting all files in one call keeps every
// result (626 MB); one call per file takes some 14 % longer, 171 MB, and a rule that throws stops one file only.
import { readFileSync, statSync } from 'node:fs';
import { dirname, relative, sep } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { ESLint, Linter, Rule } from 'eslint';
import { messageOf, ReportFailure } from '../document/failure.ts';
import { sortedUnique } from '../document/report-path.ts';
import { bundledConfig } from './bundled-config.ts';
import { JAVASCRIPT_FILES, TYPESCRIPT_FILES } from './bundled-profile.ts';
import { hasTypescriptConfig, noConfig, notesOn } from './config-files.ts';
import { choiceOf, DEFAULT_FILES, DEFAULT_IGNORES } from './config-patterns.ts';
import { lintIsolated, type RuleFilter } from './crash-isolation.ts';
import { type EslintCopy, eslintFor } from './eslint-copy.ts';
import {
  ConfigMissing,
  type EngineMessage,
  type EngineOptions,
  type FileChoice,
  type LintedFile,
  type LintEngine,
  type RuleFacts,
  UNUSED_DIRECTIVE_RULE,
} from './lint-engine.ts';
import { RuleFailures } from './rule-failures.ts';
import { dependenceOf } from './settings-text.ts';

/** Makes the engine. Throws ReportFailure ('config') for a configuration that cannot be used. */
export async function createEngine(options: EngineOptions): Promise<LintEngine> {
  if (options.config !== undefined && statSync(options.config, { throwIfNoEntry: false })?.isDirectory() !== false) {
    throw new ReportFailure('config', `there is no configuration file ${options.config}`);
  }
  const copy = await eslintFor(options.root);
  const extra: Linter.Config[] = options.extensions.map((extension) => ({ files: [`**/*.${extension}`] }));
  const profile = options.profile === null ? [] : await bundledConfig(options.profile, copy);
  return new EslintEngine(options, copy, [...profile, ...extra]);
}

/** The part of a resolved configuration that is read here. */
interface ResolvedConfig {
  readonly rules?: Readonly<Record<string, Linter.RuleEntry>>;
  readonly linterOptions?: { readonly reportUnusedDisableDirectives?: unknown };
  readonly plugins?: Readonly<Record<string, { readonly rules?: Readonly<Record<string, Rule.RuleModule>> }>>;
}

class EslintEngine implements LintEngine {
  readonly name: string;
  readonly notes: readonly string[];
  readonly #options: EngineOptions;
  readonly #eslint: ESLint;
  readonly #version: string;
  readonly #facts = new Map<string, RuleFacts>();
  readonly #enabled = new Map<ResolvedConfig, readonly string[]>();
  readonly #settings = new Map<string, string | undefined>();
  readonly #knownCulprits = new Set<string>();
  readonly #failures = new RuleFailures();
  readonly #asked = new Set<string>();
  #filter: RuleFilter = () => true;

  constructor(options: EngineOptions, copy: EslintCopy, overrideConfig: Linter.Config[]) {
    this.#options = options;
    this.#version = copy.version;
    this.name = `ESLint ${copy.version}${copy.isOwn ? '' : ' of the root'}`;
    this.notes = notesOn(options, copy);
    const ownConfig = options.profile === null;
    this.#eslint = new copy.ESLint({
      cwd: options.root,
      overrideConfigFile: ownConfig ? (options.config ?? null) : true,
      overrideConfig,
      warnIgnored: false,
      flags: ownConfig && hasTypescriptConfig(options) ? [...copy.typescriptFlags] : [],
      // One instance serves all runs: the filter is asked for each rule that is on, in each of them.
      ruleFilter: ({ ruleId }) => {
        const runs = this.#filter(ruleId);
        if (runs) this.#asked.add(ruleId);
        return runs;
      },
    });
  }

  get givenUp(): ReadonlySet<string> {
    return this.#failures.givenUp;
  }

  async rulesFor(path: string): Promise<readonly string[] | undefined> {
    const config = await this.#configFor(path);
    if (config === undefined) return undefined;
    let ids = this.#enabled.get(config);
    if (ids === undefined) {
      const rules = config.rules ?? {};
      ids = Object.keys(rules).filter((id) => isOn(rules[id]));
      this.#enabled.set(config, ids);
    }
    return ids;
  }

  async lint(path: string, text: string): Promise<LintedFile> {
    const ruleIds = (await this.rulesFor(path)) ?? [];
    const { result, crashes, failure } = await lintIsolated({
      ruleIds,
      knownCulprits: this.#knownCulprits,
      culpritOf,
      run: async (filter) => {
        this.#asked.clear();
        this.#filter = (ruleId) => !this.givenUp.has(ruleId) && filter(ruleId);
        const [linted] = await this.#eslint.lintText(text, { filePath: path });
        return linted;
      },
    });
    if (failure !== undefined) return { messages: [], suppressed: [], ran: [], crashes: [], failure };
    const config = await this.#configFor(path);
    const checked = isOn(config?.linterOptions?.reportUnusedDisableDirectives) && crashes.length === 0;
    const ran = [...this.#asked, ...(checked ? [UNUSED_DIRECTIVE_RULE] : [])];
    this.#failures.note(ran, crashes);
    const { messages = [], suppressedMessages = [] } = result ?? {};
    return { messages: messages.map(engineMessage), suppressed: suppressedMessages.map(engineMessage), ran, crashes };
  }

  remember(ran: readonly string[]): void {
    this.#failures.note(ran, []);
  }

  factsOf(ruleId: string): RuleFacts {
    let facts = this.#facts.get(ruleId);
    if (facts === undefined) {
      facts = this.#readFacts(ruleId);
      this.#facts.set(ruleId, facts);
    }
    return facts;
  }

  async fileChoice(paths: readonly string[]): Promise<FileChoice | undefined> {
    const extra = this.#options.extensions.map((extension) => `**/*.${extension}`);
    if (this.#options.profile !== null) {
      return { include: sortedUnique([...JAVASCRIPT_FILES, ...TYPESCRIPT_FILES, ...extra]), exclude: DEFAULT_IGNORES };
    }
    const include = [...DEFAULT_FILES, ...extra];
    const exclude = [...DEFAULT_IGNORES];
    for (const file of await this.#configFiles(paths)) {
      const base = this.#options.config === undefined ? dirname(file) : this.#options.root;
      const prefix = relative(this.#options.root, base).split(sep).join('/');
      const module = (await import(pathToFileURL(file).href).catch(() => undefined)) as
        { default?: unknown } | undefined;
      const choice = module === undefined ? undefined : await choiceOf(module.default, prefix).catch(() => undefined);
      if (choice === undefined) return undefined;
      include.push(...choice.include);
      exclude.push(...choice.exclude);
    }
    return { include: sortedUnique(include), exclude: sortedUnique(exclude) };
  }

  async settingsOf(path: string): Promise<string | undefined> {
    const config = await this.#configFor(path);
    if (config === undefined) return undefined;
    const files = await this.#configFiles([path]);
    const key = JSON.stringify([[...this.#enabled.keys()].indexOf(config), ...files]);
    if (!this.#settings.has(key)) {
      const sources = [...files].map((file) => readFileSync(file, 'utf8'));
      this.#settings.set(key, dependenceOf(config, [this.#version, ...sources]));
    }
    return this.#settings.get(key);
  }

  async #configFor(path: string): Promise<ResolvedConfig | undefined> {
    const config: unknown = await this.#eslint.calculateConfigForFile(path).catch((cause: unknown) => {
      if (isConfigMissing(cause)) throw new ConfigMissing('config', noConfig(this.#options.root), cause);
      throw new ReportFailure('config', `the configuration cannot be used: ${this.#masked(messageOf(cause))}`, cause);
    });
    return typeof config === 'object' && config !== null ? config : undefined;
  }

  async #configFiles(paths: readonly string[]): Promise<Set<string>> {
    if (this.#options.profile !== null) return new Set();
    if (this.#options.config !== undefined) return new Set([this.#options.config]);
    const folders = new Map(paths.map((path) => [dirname(path), path]));
    const files = await Promise.all([...folders.values()].map((path) => this.#eslint.findConfigFile(path)));
    return new Set(files.filter((file) => file !== undefined));
  }

  /** What a rule says of itself, from the plugin that some configuration takes it from. */
  #readFacts(ruleId: string): RuleFacts {
    const at = ruleId.startsWith('@') ? ruleId.lastIndexOf('/') : ruleId.indexOf('/');
    const [plugin, name] = at < 0 ? ['@', ruleId] : [ruleId.slice(0, at), ruleId.slice(at + 1)];
    for (const { plugins } of this.#enabled.keys()) {
      const meta = plugins?.[plugin]?.rules?.[name]?.meta;
      if (meta === undefined) continue;
      const url = meta.docs?.url;
      return { category: meta.type, docsUrl: url !== undefined && /^https?:\/\//iu.test(url) ? url : undefined };
    }
    return {};
  }

  #masked(text: string): string {
    return text.replaceAll(`${this.#options.root}${sep}`, '').replaceAll(this.#options.root, '.');
  }
}

function isConfigMissing(error: unknown): boolean {
  return (
    error instanceof Error &&
    ('messageTemplate' in error
      ? error.messageTemplate === 'config-file-missing'
      : /could not find config file/iu.test(error.message))
  );
}

function isOn(entry: unknown): boolean {
  const level: unknown = Array.isArray(entry) ? entry[0] : entry;
  return level !== 0 && level !== 'off' && level !== false && level !== undefined;
}

function culpritOf(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  if ('ruleId' in error && typeof error.ruleId === 'string') return error.ruleId;
  return /^Error while loading rule '([^']+)'/u.exec(error.message)?.[1];
}

function engineMessage(message: Linter.LintMessage): EngineMessage {
  const fixed = message.fix === undefined ? undefined : 'eslint --fix can mend this.';
  return {
    ruleId: message.ruleId,
    severity: message.severity === 2 ? 'error' : 'warning',
    message: message.message,
    messageId: message.messageId,
    fatal: message.fatal === true,
    line: message.line,
    column: message.column,
    endLine: message.endLine,
    endColumn: message.endColumn,
    suggestion: message.suggestions?.[0]?.desc ?? fixed,
  };
}

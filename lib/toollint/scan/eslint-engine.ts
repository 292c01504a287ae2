// ESLint behind the words of lint-engine.ts, and the only file that names it or typescript-eslint. Both are optional
// peers: scan.ts loads this file when a scan begins.
//
// Facts measured with ESLint 10.15 on 3,000 files with 240,000 findings: linting all files in one call keeps every
// result (626 MB); one call per file takes some 14 % longer, 171 MB, and a rule that throws stops one file only.
import { existsSync } from 'node:fs';
import { dirname, relative, sep } from 'node:path';
import { pathToFileURL } from 'node:url';
import { ESLint, type Linter } from 'eslint';
import { builtinRules } from 'eslint/use-at-your-own-risk';
import { type BundledProfile, isProfileName, JAVASCRIPT_FILES, PROFILES, TYPESCRIPT_FILES } from './bundled-profile.ts';
import { lintIsolated, type RuleFilter } from './crash-isolation.ts';
import { messageOf, ReportFailure } from '../document/failure.ts';
import type { EngineMessage, EngineOptions, FileChoice, LintedFile, LintEngine, RuleFacts } from './lint-engine.ts';
import { normalGlob } from '../document/file-pattern.ts';
import { sortedUnique } from '../document/report-path.ts';

/** What ESLint leaves out unless told otherwise. */
const DEFAULT_IGNORES = ['**/node_modules/**', '.git/**'];
const DEFAULT_FILES = ['**/*.js', '**/*.cjs', '**/*.mjs'];

/** Makes the engine. Throws ReportFailure ('config') for a configuration that cannot be used. */
export async function createEngine(options: EngineOptions): Promise<LintEngine> {
  if (options.config !== undefined && !existsSync(options.config)) {
    throw new ReportFailure('config', `there is no configuration file ${options.config}`);
  }
  const extra: Linter.Config[] = options.extensions.map((extension) => ({ files: [`**/*.${extension}`] }));
  const profile = options.profile === null ? [] : await profileConfig(options.profile);
  return new EslintEngine(options, [...profile, ...extra]);
}

class EslintEngine implements LintEngine {
  readonly #options: EngineOptions;
  readonly #eslint: ESLint;
  readonly #facts = new Map<string, RuleFacts>();
  readonly #enabled = new WeakMap<object, readonly string[]>();
  readonly #knownCulprits = new Set<string>();
  #filter: RuleFilter = () => true;

  constructor(options: EngineOptions, overrideConfig: Linter.Config[]) {
    this.#options = options;
    this.#eslint = new ESLint({
      cwd: options.root,
      overrideConfigFile: options.profile === null ? (options.config ?? null) : true,
      overrideConfig,
      warnIgnored: false,
      // One instance serves all runs: the filter is asked for each rule in each of them.
      ruleFilter: ({ ruleId }) => this.#filter(ruleId),
    });
  }

  async rulesFor(path: string): Promise<readonly string[] | undefined> {
    const config: unknown = await this.#eslint.calculateConfigForFile(path).catch((cause: unknown) => {
      if (isConfigMissing(cause)) throw new ReportFailure('config', NO_CONFIG, cause);
      throw new ReportFailure('config', `the configuration cannot be used: ${this.#masked(messageOf(cause))}`, cause);
    });
    if (typeof config !== 'object' || config === null) return undefined;
    let ids = this.#enabled.get(config);
    if (ids === undefined) {
      const rules = (config as { rules?: Record<string, Linter.RuleEntry> }).rules ?? {};
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
        this.#filter = filter;
        const [linted] = await this.#eslint.lintText(text, { filePath: path });
        return linted;
      },
    });
    if (failure !== undefined) return { messages: [], crashes: [], failure };
    if (result === undefined) return { messages: [], crashes };
    this.#learn(result);
    return { messages: result.messages.map(engineMessage), crashes };
  }

  factsOf(ruleId: string): RuleFacts {
    return this.#facts.get(ruleId) ?? {};
  }

  async fileChoice(paths: readonly string[]): Promise<FileChoice | undefined> {
    const extra = this.#options.extensions.map((extension) => `**/*.${extension}`);
    if (this.#options.profile !== null) {
      return { include: sortedUnique([...JAVASCRIPT_FILES, ...TYPESCRIPT_FILES, ...extra]), exclude: DEFAULT_IGNORES };
    }
    const include = new Set([...DEFAULT_FILES, ...extra]);
    const exclude = new Set(DEFAULT_IGNORES);
    for (const file of await this.#configFiles(paths)) {
      const base = this.#options.config === undefined ? dirname(file) : this.#options.root;
      const prefix = relative(this.#options.root, base).split(sep).join('/');
      try {
        const module = (await import(pathToFileURL(file).href)) as { default?: unknown };
        collectPatterns(module.default, prefix, include, exclude);
      } catch {
        return undefined;
      }
    }
    return { include: sortedUnique(include), exclude: sortedUnique(exclude) };
  }

  async #configFiles(paths: readonly string[]): Promise<Set<string>> {
    if (this.#options.config !== undefined) return new Set([this.#options.config]);
    const folders = new Map(paths.map((path) => [dirname(path), path]));
    const files = await Promise.all([...folders.values()].map((path) => this.#eslint.findConfigFile(path)));
    return new Set(files.filter((file) => file !== undefined));
  }

  /** Asks once for what each rule says of itself. */
  #learn(result: ESLint.LintResult): void {
    if (result.messages.every(({ ruleId }) => ruleId === null || this.#facts.has(ruleId))) return;
    const metas = this.#eslint.getRulesMetaForResults([result]);
    for (const { ruleId } of result.messages) {
      if (ruleId === null) continue;
      const meta = metas[ruleId];
      const url = meta?.docs?.url;
      this.#facts.set(ruleId, { category: meta?.type, docsUrl: url !== undefined && /^https?:\/\//iu.test(url) ? url : undefined });
    }
  }

  #masked(text: string): string {
    return text.replaceAll(`${this.#options.root}${sep}`, '').replaceAll(this.#options.root, '.');
  }
}

/** Told when neither the target nor the command line names rules. */
export const NO_CONFIG = 'no eslint.config.* was found for the files: write one, name one with --config, or take a bundled one with --profile recommended';

function isConfigMissing(error: unknown): boolean {
  return error instanceof Error && ('messageTemplate' in error ? error.messageTemplate === 'config-file-missing' : /could not find config file/iu.test(error.message));
}

function isOn(entry: Linter.RuleEntry | undefined): boolean {
  const level: unknown = Array.isArray(entry) ? entry[0] : entry;
  return level !== 0 && level !== 'off' && level !== undefined;
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

/** Gathers the patterns of a configuration that decide which files it is for. Unknown shapes are left out. */
function collectPatterns(config: unknown, prefix: string, include: Set<string>, exclude: Set<string>): void {
  for (const entry of [config].flat(Infinity)) {
    if (typeof entry !== 'object' || entry === null) continue;
    const { files, ignores, basePath } = entry as { files?: unknown; ignores?: unknown; basePath?: unknown };
    const base = typeof basePath === 'string' ? [prefix, basePath].filter(Boolean).join('/') : prefix;
    const globs = (list: unknown) =>
      [list].flat(Infinity).filter((glob): glob is string => typeof glob === 'string' && !glob.startsWith('!'));
    const placed = (glob: string) => (base === '' ? normalGlob(glob) : `${base}/${normalGlob(glob)}`);
    for (const glob of globs(files)) if (!isUniversal(glob)) include.add(placed(glob));
    const others = Object.keys(entry).filter((name) => !['ignores', 'name', 'basePath'].includes(name));
    if (others.length > 0) continue;
    for (const glob of globs(ignores)) {
      exclude.add(placed(glob));
      if (!glob.endsWith('*') && !/\.[^/]*$/u.test(glob)) exclude.add(placed(`${glob.replace(/\/$/u, '')}/`));
    }
  }
}

/** ESLint lints no file because of such a pattern alone. */
function isUniversal(glob: string): boolean {
  return /^(?:\*|\*\*|\*\*\/\*|\*\/\*\*)$/u.test(glob) || glob.endsWith('/*') || glob.endsWith('/**');
}

async function profileConfig(name: string): Promise<Linter.Config[]> {
  if (!isProfileName(name)) throw new ReportFailure('usage', `unknown profile '${name}': known are ${Object.keys(PROFILES).join(', ')}`);
  const profile = PROFILES[name];
  const { default: typescript } = await import('typescript-eslint');
  const sets: readonly Linter.Config[] = profile.typescript === undefined ? [] : typescript.configs[profile.typescript];
  return [
    { files: [...JAVASCRIPT_FILES], languageOptions: { parserOptions: { ecmaFeatures: { jsx: true } } }, rules: coreRules(profile) },
    { files: [...TYPESCRIPT_FILES], languageOptions: { parser: typescript.parser }, rules: coreRules(profile) },
    ...sets.map((config) => ({ ...config, files: config.files ?? [...TYPESCRIPT_FILES] })),
  ];
}

function coreRules(profile: BundledProfile): Linter.RulesRecord {
  const rules: Linter.RulesRecord = {};
  if (profile.coreRecommended) {
    for (const [id, rule] of builtinRules) if (rule.meta?.docs?.recommended === true) rules[id] = 'error';
  }
  return { ...rules, ...profile.rules };
}

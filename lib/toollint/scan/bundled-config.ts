// A bundled profile as a configuration of ESLint.
import type { Linter } from 'eslint';
import { ReportFailure } from '../document/failure.ts';
import { type BundledProfile, isProfileName, JAVASCRIPT_FILES, PROFILES, TYPESCRIPT_FILES } from './bundled-profile.ts';
import type { EslintCopy } from './eslint-copy.ts';

/** The configuration of a profile. Throws ReportFailure ('usage') for one that does not exist. */
export async function bundledConfig(name: string, { builtinRules }: EslintCopy): Promise<Linter.Config[]> {
  if (!isProfileName(name)) {
    throw new ReportFailure('usage', `unknown profile '${name}': known are ${Object.keys(PROFILES).join(', ')}`);
  }
  const profile = PROFILES[name];
  const { default: typescript } = await import('typescript-eslint');
  const sets: readonly Linter.Config[] = profile.typescript === undefined ? [] : typescript.configs[profile.typescript];
  const rules = coreRules(profile, builtinRules);
  return [
    { files: [...JAVASCRIPT_FILES], languageOptions: { parserOptions: { ecmaFeatures: { jsx: true } } }, rules },
    { files: [...TYPESCRIPT_FILES], languageOptions: { parser: typescript.parser }, rules },
    ...sets.map((config) => ({ ...config, files: config.files ?? [...TYPESCRIPT_FILES] })),
  ];
}

function coreRules(profile: BundledProfile, builtinRules: EslintCopy['builtinRules']): Linter.RulesRecord {
  const rules: Linter.RulesRecord = {};
  if (profile.coreRecommended) {
    for (const [id, rule] of builtinRules) if (rule.meta?.docs?.recommended === true) rules[id] = 'error';
  }
  return { ...rules, ...profile.rules };
}

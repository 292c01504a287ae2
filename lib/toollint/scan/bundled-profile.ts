// The rules that come with the tool, for code that brings no configuration of its own. A profile names the linter's
// recommended sets and a few rules beside them; eslint-engine.ts puts the sets in.

/** Names for `--profile`. */
export const PROFILE_NAMES = ['recommended', 'strict', 'none'] as const;

type ProfileName = (typeof PROFILE_NAMES)[number];

/** What a profile consists of. */
export interface BundledProfile {
  /** The linter's own recommended rules. */
  readonly coreRecommended: boolean;
  /** The set for TypeScript files. */
  readonly typescript: 'recommended' | 'strict' | undefined;
  readonly rules: Readonly<Record<string, 'error' | 'warn' | 'off'>>;
}

/**
 * `recommended` finds likely mistakes. `strict` adds rules on clarity. `none` only parses.
 * no-undef is off: nothing is known of the environment in which the code runs.
 */
export const PROFILES: Readonly<Record<ProfileName, BundledProfile>> = {
  recommended: { coreRecommended: true, typescript: 'recommended', rules: { 'no-undef': 'off' } },
  strict: {
    coreRecommended: true,
    typescript: 'strict',
    rules: {
      'no-undef': 'off',
      eqeqeq: 'error',
      'no-var': 'error',
      'prefer-const': 'error',
      'no-eval': 'error',
      'no-implied-eval': 'error',
      'no-new-func': 'error',
      'no-throw-literal': 'error',
      'no-console': 'warn',
      'default-case-last': 'warn',
      'no-shadow': 'warn',
      complexity: 'warn',
    },
  },
  none: { coreRecommended: false, typescript: undefined, rules: {} },
};

/** Whether the text names a profile. */
export function isProfileName(text: string): text is ProfileName {
  return PROFILE_NAMES.some((name) => name === text);
}

/** Endings that a profile lints. */
export const JAVASCRIPT_FILES = ['**/*.js', '**/*.cjs', '**/*.mjs', '**/*.jsx'] as const;
export const TYPESCRIPT_FILES = ['**/*.ts', '**/*.cts', '**/*.mts', '**/*.tsx'] as const;

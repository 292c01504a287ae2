// File patterns of `scan.include` and `scan.exclude`. They use ESLint's matcher and options, so a pattern means the
// same as in an ESLint configuration. As on other command lines, a pattern that ends in '/' matches everything under
// that folder, and a leading './' is dropped. A leading '!' is literal.
import { Minimatch } from 'minimatch';
import { ReportFailure } from './failure.ts';

const compiled = new Map<string, Minimatch>();

/** Throws ReportFailure ('usage') for a pattern that is too long to compile. */
export function matchesGlob(path: string, pattern: string): boolean {
  try {
    const matcher = compiled.get(pattern) ?? new Minimatch(normalGlob(pattern), { dot: true, nonegate: true });
    compiled.set(pattern, matcher);
    return matcher.match(path);
  } catch (cause) {
    throw new ReportFailure('usage', `not a file pattern: ${pattern}`, cause);
  }
}

export const matchesAny = (path: string, patterns: readonly string[]) =>
  patterns.some((pattern) => matchesGlob(path, pattern));

export const isGlob = (text: string): boolean => /[*?{[]|[!+@]\(/u.test(text);

export const literalGlob = (path: string): string => path.replace(/[\\*?{}[\]()!+@#]/gu, '\\$&');

/** True for the patterns that `literalGlob` returns, which match only one path. */
export const isLiteralGlob = (pattern: string) => !/(?<!\\)[*?{[(]/u.test(pattern);

export function normalGlob(pattern: string): string {
  const plain = pattern.replace(/^(?:\.\/)+/u, '');
  return plain.endsWith('/') ? `${plain}**` : plain;
}

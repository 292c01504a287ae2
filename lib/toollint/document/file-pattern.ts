// File patterns of `scan.include` and `scan.exclude`. They use ESLint's matcher and options, so a pattern means the
// same as in an ESLint configuration. As on other command lines, a pattern that ends in '/' matches everything under
// that folder, and a leading './' is dropped. A leading '!' is literal.
import { Minimatch } from 'minimatch';
import { ReportFailure } from './failure.ts';

const compiled = new Map<string, Minimatch>();

/** Throws ReportFailure ('usage') for a pattern that is too long to compile. */
export function matchesGlob(path: string, pattern: string): boolean {
  const matcher = compiled.get(pattern) ?? compileGlob(pattern);
  compiled.set(pattern, matcher);
  return matcher.match(path);
}

export function matchesAny(path: string, patterns: readonly string[]): boolean {
  return patterns.some((pattern) => matchesGlob(path, pattern));
}

export function isGlob(text: string): boolean {
  return /[*?{[]|[!+@]\(/u.test(text);
}

export function literalGlob(path: string): string {
  return path.replace(/[\\*?{}[\]()!+@#]/gu, '\\$&');
}

/** True for the patterns that `literalGlob` returns, which match only one path. */
export const isLiteralGlob = (pattern: string) => !/(?<!\\)[*?{[(]/u.test(pattern);

export function normalGlob(pattern: string): string {
  const plain = pattern.replace(/^(?:\.\/)+/u, '');
  return plain.endsWith('/') ? `${plain}**` : plain;
}

function compileGlob(pattern: string): Minimatch {
  try {
    return new Minimatch(normalGlob(pattern), { dot: true, nonegate: true });
  } catch (cause) {
    throw new ReportFailure('usage', `not a file pattern: ${pattern}`, cause);
  }
}

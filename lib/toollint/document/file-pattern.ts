// File patterns as written in `scan.include` and `scan.exclude`, matched against report paths by the matcher that
// ESLint uses, with the options that ESLint gives it, so that a pattern means here what it means in a configuration.
//
// Two things come on top, as on other command lines: a pattern that ends in '/' means everything under that folder,
// and a leading './' is dropped. A pattern that begins with '!' is taken literally: a list of patterns that a path must
// match has no order in which one could take something back.
import { Minimatch } from 'minimatch';
import { ReportFailure } from './failure.ts';

const compiled = new Map<string, Minimatch>();

/** Whether the path matches the pattern. Throws ReportFailure ('usage') for a pattern that is too long to compile. */
export function matchesGlob(path: string, pattern: string): boolean {
  let matcher = compiled.get(pattern);
  if (matcher === undefined) {
    matcher = compileGlob(pattern);
    compiled.set(pattern, matcher);
  }
  return matcher.match(path);
}

/** Whether the path matches any of the patterns. */
export function matchesAny(path: string, patterns: readonly string[]): boolean {
  return patterns.some((pattern) => matchesGlob(path, pattern));
}

/** Whether a command-line argument is a pattern and not a plain path. */
export function isGlob(text: string): boolean {
  return /[*?{[]|[!+@]\(/u.test(text);
}

/** The pattern that matches exactly this path. */
export function literalGlob(path: string): string {
  return path.replace(/[\\*?{}[\]()!+@#]/gu, '\\$&');
}

/** 'dir/' means everything under dir; './x' is x. */
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

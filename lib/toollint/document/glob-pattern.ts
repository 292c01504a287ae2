// File patterns as they stand in `scan.include` and `scan.exclude`, matched against report paths. Written here because
// the runtime's own matcher skips names that begin with a dot, and a report's patterns must not.
//
// Known: `*` `?` `[abc]` `{a,b}` `**`; a pattern that ends in '/' means everything under that folder; a leading './'
// is dropped. Not known (taken literally): `!(…)`, `+(…)` and the like.
import { ReportFailure } from './failure.ts';

const compiled = new Map<string, RegExp>();

/** Whether the path matches the pattern. */
export function matchesGlob(path: string, pattern: string): boolean {
  let expression = compiled.get(pattern);
  if (expression === undefined) {
    expression = compileGlob(pattern);
    compiled.set(pattern, expression);
  }
  return expression.test(path);
}

/** Whether the path matches any of the patterns. */
export function matchesAny(path: string, patterns: readonly string[]): boolean {
  return patterns.some((pattern) => matchesGlob(path, pattern));
}

/** Whether a command-line argument is a pattern and not a plain path. */
export function isGlob(text: string): boolean {
  return /[*?{[]/u.test(text);
}

/** The pattern that matches exactly this path. */
export function literalGlob(path: string): string {
  return path.replace(/[*?{}[\]]/gu, (character) => (character === '[' || character === ']' ? '?' : `[${character}]`));
}

/** 'dir/' means everything under dir; './x' is x. */
export function normalGlob(pattern: string): string {
  const plain = pattern.replace(/^(?:\.\/)+/u, '');
  return plain.endsWith('/') ? `${plain}**` : plain;
}

function compileGlob(pattern: string): RegExp {
  try {
    return new RegExp(`^(?:${globSource(normalGlob(pattern))})$`, 'su');
  } catch (cause) {
    throw new ReportFailure('usage', `not a file pattern: ${pattern}`, cause);
  }
}

function globSource(pattern: string): string {
  let source = '';
  let braces = 0;
  for (let at = 0; at < pattern.length; at += 1) {
    const character = pattern.charAt(at);
    if (character === '*') {
      const [piece, length] = starSource(pattern, at);
      source += piece;
      at += length - 1;
    } else if (character === '?') source += '[^/]';
    else if (character === '[') {
      const close = pattern.indexOf(']', at + 2);
      if (close < 0) source += '\\[';
      else {
        source += classSource(pattern.slice(at + 1, close));
        at = close;
      }
    } else if (character === '{' && pattern.includes('}', at)) {
      source += '(?:';
      braces += 1;
    } else if (character === '}' && braces > 0) {
      source += ')';
      braces -= 1;
    } else if (character === ',' && braces > 0) source += '|';
    else source += character.replace(/[\\^$.|?*+()[\]{}/]/u, '\\$&');
  }
  return source + ')'.repeat(braces);
}

/** The source for the stars at `at`, and how many characters of the pattern it stands for. */
function starSource(pattern: string, at: number): [string, number] {
  const wholeSegment = (at === 0 || pattern[at - 1] === '/') && pattern[at + 1] === '*';
  if (!wholeSegment) return ['[^/]*', pattern[at + 1] === '*' ? 2 : 1];
  if (pattern[at + 2] === '/') return ['(?:[^/]+/)*', 3];
  return pattern.length === at + 2 ? ['.+', 2] : ['[^/]*', 2];
}

function classSource(body: string): string {
  const negated = body.startsWith('!') || body.startsWith('^');
  const members = (negated ? body.slice(1) : body).replace(/[\\\]^[]/gu, '\\$&');
  return negated ? `[^/${members}]` : `[${members}]`;
}

// Slips of the keyboard: keys of the environment that begin with the project's prefix and that no program reads.
import { KNOWN_KEYS } from './settings.ts';

const PREFIX = 'INGEST_';

/** A warning for each, which names the nearest known key or keys. */
export function unknownKeys(environment: Readonly<Record<string, string | undefined>>): string[] {
  const warnings: string[] = [];
  for (const key of Object.keys(environment)) {
    if (!key.startsWith(PREFIX) || KNOWN_KEYS.includes(key)) continue;
    const distances = KNOWN_KEYS.map((known) => editDistance(key, known));
    const least = Math.min(...distances);
    const nearest = KNOWN_KEYS.filter((_, at) => distances[at] === least);
    warnings.push(`${key} is not a known key; the nearest one is ${nearest.join(' or ')}`);
  }
  return warnings;
}

/** Levenshtein's distance, one row at a time. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const change = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(change, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}

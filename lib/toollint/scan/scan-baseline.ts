// A baseline during a scan: findings are matched file by file, so memory follows the baseline and not the scan. A
// fingerprint names its path, and so does an edited line, hence no match crosses a file.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Baseline, BaselineEntry } from '../compare/baseline.ts';
import { FindingMatcher } from '../compare/finding-match.ts';
import { fixedClaims } from '../compare/fixed-claims.ts';
import type { BaselineCounts, Finding, ReportHeader } from '../document/report-schema.ts';

/** Matches a scan's files against a baseline. */
export class ScanBaseline {
  readonly #baseline: Baseline;
  readonly #byPath = new Map<string, BaselineEntry[]>();
  readonly #missing: BaselineEntry[] = [];
  #newIssues = 0;
  #unchanged = 0;

  constructor(baseline: Baseline) {
    this.#baseline = baseline;
    for (const entry of baseline.entries) {
      const entries = this.#byPath.get(entry.path);
      if (entries === undefined) this.#byPath.set(entry.path, [entry]);
      else entries.push(entry);
    }
  }

  /** The findings of one file that are new, in their order. */
  newFindings(path: string, findings: readonly Finding[]): Finding[] {
    const matcher = new FindingMatcher(this.#byPath.get(path) ?? []);
    this.#byPath.delete(path);
    const compared = this.#baseline.errorsOnly ? findings.filter(({ severity }) => severity === 'error') : findings;
    for (const finding of compared) matcher.offer(finding);
    const result = matcher.finish();
    this.#newIssues += result.newIssues;
    this.#unchanged += result.unchanged;
    for (const entry of result.missing) this.#missing.push(entry);
    return compared.filter((_, index) => result.isNew(index));
  }

  /** The counts after the last file, and how many missing findings cannot be called fixed. */
  counts(
    current: Pick<ReportHeader, 'scan' | 'execution' | 'selection'>,
    root: string,
    scanned: ReadonlySet<string>,
  ): { counts: BaselineCounts; notVerifiable: number } {
    const isFixed = fixedClaims(current, {
      wasScanned: (path) => scanned.has(path),
      exists: (path) => existsSync(join(root, path)),
      comparesErrorsOnly: this.#baseline.errorsOnly,
    });
    const missing = [...this.#missing, ...[...this.#byPath.values()].flat()];
    const fixed = missing.filter(isFixed).length;
    return { counts: { newIssues: this.#newIssues, unchanged: this.#unchanged, fixed }, notVerifiable: missing.length - fixed };
  }
}

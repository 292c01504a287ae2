// A baseline during a scan: findings are matched file by file, so memory follows the baseline and not the scan. A
// fingerprint names its path, and so does an edited line, hence no match crosses a file.
//
// A finding that is gone counts as fixed only where its rule has verifiably looked: it ran to the end of that very file
// and no comment or suppression took the finding back; or the file is gone from the disk, and would be linted under
// that rule if it were there. Everything else is not verifiable.
import type { Baseline, BaselineEntry } from '../compare/baseline.ts';
import { FindingMatcher } from '../compare/finding-match.ts';
import { ReportFailure } from '../document/failure.ts';
import type { BaselineCounts, Finding } from '../document/report-schema.ts';

/** How a file was looked at. */
export interface Looked {
  /** The rules that ran to the end of the file. */
  readonly ran: ReadonlySet<string>;
  /** Findings that a comment or a suppression took back. */
  readonly suppressed: readonly Finding[];
}

/** What is known of paths that were not scanned. */
export interface AbsentFiles {
  exists(path: string): boolean;
  /** The rules that would be on for the file if it were there; none when it is outside the scan. */
  rulesIfThere(path: string): Promise<readonly string[]>;
}

/**
 * Throws ReportFailure when the baseline was made from another folder: none of its files is there, but one of them is
 * in a folder of this root, or a file found is in a folder of its root. Otherwise its files were deleted or renamed.
 */
export function checkSameFiles(
  { entries, name }: Baseline,
  exists: (path: string) => boolean,
  found: ReadonlySet<string>,
): void {
  const paths = new Set(entries.filter(({ scope }) => scope === 'file').map(({ path }) => path));
  if ([...paths].some(exists)) return;
  const isWithin = (path: string, others: ReadonlySet<string>): boolean =>
    path.split('/').some((_, index, segments) => index > 0 && others.has(segments.slice(index).join('/')));
  if (![...paths].some((path) => isWithin(path, found)) && ![...found].some((path) => isWithin(path, paths))) return;
  const [first = ''] = paths;
  const message = `none of its ${paths.size} files is under the root (the first is ${first}); was it made from another folder?`;
  throw new ReportFailure('baseline', `the baseline ${name} cannot be used: ${message}`);
}

/** Matches a scan's files against a baseline. */
export class ScanBaseline {
  /** Findings that are as in the baseline; gathered only on request. */
  readonly unchangedFindings: Finding[] = [];
  /** Missing baseline entries of which nothing can be said. */
  readonly notVerifiable: BaselineEntry[] = [];
  readonly #errorsOnly: boolean;
  readonly #gathers: boolean;
  readonly #byPath = new Map<string, BaselineEntry[]>();
  #newIssues = 0;
  #unchanged = 0;
  #fixed = 0;

  constructor(baseline: Baseline, gathersUnchanged: boolean) {
    this.#errorsOnly = baseline.errorsOnly;
    this.#gathers = gathersUnchanged;
    for (const entry of baseline.entries) {
      const entries = this.#byPath.get(entry.path);
      if (entries === undefined) this.#byPath.set(entry.path, [entry]);
      else entries.push(entry);
    }
  }

  /** Whether the baseline has findings in the file. */
  knows(path: string): boolean {
    return this.#byPath.has(path);
  }

  /** The findings of one file that are new, in their order. `looked` is undefined when nothing looked at the file. */
  newFindings(path: string, findings: readonly Finding[], looked: Looked | undefined): Finding[] {
    const matcher = new FindingMatcher(this.#byPath.get(path) ?? []);
    this.#byPath.delete(path);
    const compared = this.#errorsOnly ? findings.filter(({ severity }) => severity === 'error') : findings;
    for (const finding of compared) matcher.offer(finding);
    const result = matcher.finish();
    this.#newIssues += result.newIssues;
    this.#unchanged += result.unchanged;
    this.#judge(result.missing, looked);
    if (this.#gathers) this.unchangedFindings.push(...compared.filter((_, index) => !result.isNew(index)));
    return compared.filter((_, index) => result.isNew(index));
  }

  /** The counts after the last file. */
  async counts(absent: AbsentFiles): Promise<BaselineCounts> {
    for (const [path, entries] of this.#byPath) {
      const isGone = path !== '' && !absent.exists(path);
      this.#judge(entries, isGone ? { ran: new Set(await absent.rulesIfThere(path)), suppressed: [] } : undefined);
    }
    this.#byPath.clear();
    return { newIssues: this.#newIssues, unchanged: this.#unchanged, fixed: this.#fixed };
  }

  #judge(missing: readonly BaselineEntry[], looked: Looked | undefined): void {
    const takenBack = new FindingMatcher(missing);
    for (const finding of looked?.suppressed ?? []) takenBack.offer(finding);
    const gone = new Set(takenBack.finish().missing);
    for (const entry of missing) {
      if (looked?.ran.has(entry.ruleId) === true && gone.has(entry)) this.#fixed += 1;
      else this.notVerifiable.push(entry);
    }
  }
}

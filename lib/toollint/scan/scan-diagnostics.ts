// The failures of a scan. Messages are one line of at most 2,000 characters without absolute paths or stacks. A rule
// that throws in more than 1,000 files, or is given up, is reported once, without a path.
import { oneLine } from '../document/failure.ts';
import type { RuleCrash } from './scan-options.ts';
import { byCodeUnits, pathFault, withoutAbsolutePaths } from '../document/report-path.ts';
import type { Diagnostic } from '../document/report-schema.ts';

const MESSAGE_UNITS_MAX = 2000;
const CRASHES_OF_A_RULE_MAX = 1000;

export class ScanDiagnostics {
  readonly #roots: readonly string[];
  readonly #parse: Diagnostic[] = [];
  readonly #crashes = new Map<string, Diagnostic[]>();

  constructor(roots: readonly string[]) {
    this.#roots = roots;
  }

  parseError(path: string, message: string): void {
    const diagnostic: Diagnostic = { kind: 'parse-error', message: this.#clean(message) };
    if (pathFault(path) === undefined) diagnostic.relativePath = path;
    this.#parse.push(diagnostic);
  }

  ruleError(path: string, { ruleId, message }: RuleCrash): void {
    const list = this.#crashes.get(ruleId) ?? [];
    this.#crashes.set(ruleId, list);
    list.push({ kind: 'rule-error', message: this.#clean(message), ruleId, relativePath: path });
  }

  list(givenUp: ReadonlySet<string>): Diagnostic[] {
    const crashes = [...this.#crashes].flatMap(([ruleId, list]) => folded(ruleId, list, givenUp.has(ruleId)));
    return [...this.#parse, ...crashes].sort(compareDiagnostics);
  }

  #clean(text: string): string {
    const line = oneLine(withoutAbsolutePaths(text, this.#roots));
    return (line.length > MESSAGE_UNITS_MAX ? line.slice(0, MESSAGE_UNITS_MAX) : line || 'no message').toWellFormed();
  }
}

function folded(ruleId: string, list: readonly Diagnostic[], isGivenUp: boolean): readonly Diagnostic[] {
  if (list.length <= CRASHES_OF_A_RULE_MAX && !isGivenUp) return list;
  const end = isGivenUp ? ' and was given up' : '';
  const message = `the rule failed in ${list.length} files${end}, first: ${list[0]?.message ?? ''}`;
  return [{ kind: 'rule-error', ruleId, message: message.slice(0, MESSAGE_UNITS_MAX) }];
}

function compareDiagnostics(left: Diagnostic, right: Diagnostic): number {
  return (
    byCodeUnits(left.kind, right.kind) ||
    byCodeUnits(left.relativePath ?? '', right.relativePath ?? '') ||
    byCodeUnits(left.ruleId ?? '', right.ruleId ?? '') ||
    byCodeUnits(left.message, right.message)
  );
}

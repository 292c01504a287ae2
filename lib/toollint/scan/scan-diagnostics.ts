// Collects the failures of a scan. Each message is one line of at most 2,000 characters, without absolute paths or
// stacks.
import { oneLine } from '../document/failure.ts';
import type { RuleCrash } from './scan-options.ts';
import { byCodeUnits, pathFault, withoutAbsolutePaths } from '../document/report-path.ts';
import type { Diagnostic } from '../document/report-schema.ts';

const MESSAGE_UNITS_MAX = 2000;

export class ScanDiagnostics {
  readonly #roots: readonly string[];
  readonly #found: Diagnostic[] = [];

  constructor(roots: readonly string[]) {
    this.#roots = roots;
  }

  parseError(path: string, message: string): void {
    const diagnostic: Diagnostic = { kind: 'parse-error', message: this.#clean(message) };
    if (pathFault(path) === undefined) diagnostic.relativePath = path;
    this.#found.push(diagnostic);
  }

  ruleError(relativePath: string, { ruleId, message }: RuleCrash): void {
    this.#found.push({ kind: 'rule-error', message: this.#clean(message), ruleId, relativePath });
  }

  list(): Diagnostic[] {
    return this.#found.sort(
      (left, right) =>
        byCodeUnits(left.kind, right.kind) ||
        byCodeUnits(left.relativePath ?? '', right.relativePath ?? '') ||
        byCodeUnits(left.ruleId ?? '', right.ruleId ?? '') ||
        byCodeUnits(left.message, right.message),
    );
  }

  #clean(text: string): string {
    const line = oneLine(withoutAbsolutePaths(text, this.#roots)) || 'no message';
    return line.slice(0, MESSAGE_UNITS_MAX).toWellFormed();
  }
}

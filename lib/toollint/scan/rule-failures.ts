// When a rule is no longer tried: it threw in 20 files, and in more than nine of ten of those that it looked at.
// Linting a file again without the rule costs as much as linting it, so twelve such rules made a scan 4.7 times as
// long.
import type { RuleCrash } from './lint-engine.ts';

const CRASHES_MIN = 20;
const SHARE_MIN = 0.9;

/** Counts how each rule fares, file by file. */
export class RuleFailures {
  readonly givenUp = new Set<string>();
  readonly #crashes = new Map<string, number>();
  readonly #runs = new Map<string, number>();

  /** One file was linted. */
  note(ran: readonly string[], crashes: readonly RuleCrash[]): void {
    for (const ruleId of ran) this.#runs.set(ruleId, (this.#runs.get(ruleId) ?? 0) + 1);
    for (const { ruleId } of crashes) {
      const thrown = (this.#crashes.get(ruleId) ?? 0) + 1;
      this.#crashes.set(ruleId, thrown);
      const share = thrown / (thrown + (this.#runs.get(ruleId) ?? 0));
      if (thrown >= CRASHES_MIN && share > SHARE_MIN) this.givenUp.add(ruleId);
    }
  }
}

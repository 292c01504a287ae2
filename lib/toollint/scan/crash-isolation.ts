// Runs a linter over one file so that a rule that throws loses only itself: the culprit is named, left out, and the
// file is linted again until it goes through.
//
// The thrown value tells the culprit when it is an Error that the linter could annotate. A rule that throws a string or
// null is found by running the rules one at a time, those that have thrown before first.
import type { RuleCrash } from './scan-options.ts';
import { messageOf } from '../document/failure.ts';

/** Decides whether a rule takes part in a run. */
export type RuleFilter = (ruleId: string) => boolean;

interface IsolationRequest<T> {
  run(filter: RuleFilter): Promise<T>;
  /** The rule that an error blames, if it tells. */
  culpritOf(error: unknown): string | undefined;
  /** Rules that may take part. */
  readonly ruleIds: readonly string[];
  /** Rules that have thrown in other files; grows. */
  readonly knownCulprits: Set<string>;
}

/** `result` is undefined when the linter throws even without a rule. */
export async function lintIsolated<T>(
  request: IsolationRequest<T>,
): Promise<{ result: T | undefined; crashes: RuleCrash[]; failure?: string }> {
  const dropped = new Map<string, RuleCrash>();
  for (;;) {
    try {
      const result = await request.run((ruleId) => !dropped.has(ruleId));
      return { result, crashes: [...dropped.values()] };
    } catch (cause) {
      const blamed = request.culpritOf(cause);
      const found =
        blamed !== undefined && !dropped.has(blamed)
          ? [{ ruleId: blamed, error: cause }]
          : await findCulprits(request, dropped);
      if (found.length === 0) return { result: undefined, crashes: [], failure: messageOf(cause) };
      for (const { ruleId, error } of found) {
        dropped.set(ruleId, { ruleId, message: describeThrown(error) });
        request.knownCulprits.add(ruleId);
      }
    }
  }
}

async function findCulprits<T>(
  request: IsolationRequest<T>,
  dropped: ReadonlyMap<string, RuleCrash>,
): Promise<{ ruleId: string; error: unknown }[]> {
  const { ruleIds, knownCulprits } = request;
  const candidates = ruleIds.filter((ruleId) => !dropped.has(ruleId));
  const suspects = candidates.filter((ruleId) => knownCulprits.has(ruleId));
  for (const group of [suspects, candidates]) {
    const found: { ruleId: string; error: unknown }[] = [];
    for (const ruleId of group) {
      const error = await thrownBy(() => request.run((other) => other === ruleId));
      if (error !== undefined) found.push({ ruleId, error: error.value });
    }
    // Throwing with every rule alone means that no rule is to blame.
    if (
      found.length > 0 &&
      (found.length < candidates.length || (await thrownBy(() => request.run(() => false))) === undefined)
    )
      return found;
  }
  return [];
}

async function thrownBy(work: () => Promise<unknown>): Promise<{ value: unknown } | undefined> {
  try {
    await work();
    return undefined;
  } catch (value) {
    return { value };
  }
}

/** One line for a report. The linter writes into what was thrown, so that a string or null shows as a TypeError. */
function describeThrown(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  if (/^Cannot (?:create|set|read) propert(?:y|ies).*currentNode/u.test(text))
    return 'the rule threw a value that is not an Error';
  const first = text.split(/\r?\n/u)[0] ?? '';
  return (
    first.replace(/^Error while loading rule '[^']*': /u, '').trim() || 'the rule threw an Error without a message'
  );
}

const CRASHES_MIN = 20;
const SHARE_MIN = 0.9;

/**
 * When a rule is no longer tried: it threw in 20 files, and in more than nine of ten of those that it looked at.
 * Linting a file again without the rule costs as much as linting it, so twelve such rules made a scan 4.7 times as
 * long.
 */
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

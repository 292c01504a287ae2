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
  /** Rules that have thrown in other files. */
  readonly knownCulprits: readonly string[];
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
          ? { ruleId: blamed, error: cause }
          : await findCulprit(request, dropped);
      if (found === undefined) return { result: undefined, crashes: [], failure: messageOf(cause) };
      dropped.set(found.ruleId, { ruleId: found.ruleId, message: describeThrown(found.error) });
    }
  }
}

async function findCulprit<T>(
  request: IsolationRequest<T>,
  dropped: ReadonlyMap<string, RuleCrash>,
): Promise<{ ruleId: string; error: unknown } | undefined> {
  // Throwing without a rule means that none is to blame.
  if ((await thrownBy(() => request.run(() => false))) !== undefined) return undefined;
  const candidates = new Set([...request.knownCulprits, ...request.ruleIds]);
  for (const ruleId of candidates) {
    if (dropped.has(ruleId)) continue;
    const thrown = await thrownBy(() => request.run((other) => other === ruleId));
    if (thrown !== undefined) return { ruleId, error: thrown.value };
  }
  return undefined;
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

/**
 * Which rules are no longer tried: those that threw in 20 files and completed in none. Linting a file again without a
 * rule costs as much as linting it, so twelve such rules made a scan 4.7 times as long.
 */
export class RuleFailures {
  readonly givenUp = new Set<string>();
  /** In how many files each rule has thrown. */
  readonly crashes = new Map<string, number>();
  readonly #worked = new Set<string>();

  /** One file was linted. */
  note(ran: readonly string[], crashes: readonly RuleCrash[]): void {
    for (const ruleId of ran) this.#worked.add(ruleId);
    for (const { ruleId } of crashes) {
      const thrown = (this.crashes.get(ruleId) ?? 0) + 1;
      this.crashes.set(ruleId, thrown);
      if (thrown >= CRASHES_MIN && !this.#worked.has(ruleId)) this.givenUp.add(ruleId);
    }
  }
}

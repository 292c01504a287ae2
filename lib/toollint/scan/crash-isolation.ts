// If a rule throws, lints the file again without that rule, so that only the findings of that rule are missing.
// ESLint adds the id of the rule to a thrown Error. If a rule throws a string or null, the rules run one at a time to
// find it.
import type { RuleCrash } from './scan-options.ts';
import { messageOf } from '../document/failure.ts';

export type RuleFilter = (ruleId: string) => boolean;

interface IsolationRequest<T> {
  run(filter: RuleFilter): Promise<T>;
  culpritOf(error: unknown): string | undefined;
  /** The rules to try, in this order. */
  readonly ruleIds: Iterable<string>;
}

/** `result` is `undefined` if the linter throws even without rules. */
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
  if ((await thrownBy(() => request.run(() => false))) !== undefined) return undefined;
  for (const ruleId of request.ruleIds) {
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

/**
 * Returns one line. ESLint adds a property to the thrown value, so a thrown string or null appears as a TypeError.
 */
function describeThrown(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  if (/^Cannot (?:create|set|read) propert(?:y|ies).*currentNode/u.test(text))
    return 'the rule threw a value that is not an Error';
  const first = text.split(/\r?\n/u)[0] ?? '';
  return (
    first.replace(/^Error while loading rule '[^']*': /u, '').trim() || 'the rule threw an Error without a message'
  );
}

// ESLint's bulk suppressions: `eslint-suppressions.json` in the root says how many errors of a rule a file may have.
// They are applied here, by ESLint's own rule: no more errors than that and all of them are left out, one more and all
// of them are shown.
//
// Read, never written. Warnings are not suppressed. Paths are those of the root, with '/'.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { errnoOf, messageOf, ReportFailure } from '../document/failure.ts';
import type { LintMessage } from '../document/file-findings.ts';

const SUPPRESSIONS_FILE = 'eslint-suppressions.json';

/** Path -> rule -> how many errors. */
export type Suppressions = Readonly<Record<string, Readonly<Record<string, { readonly count: number }>>>>;

/** The root's suppressions; empty when it has none. Throws ReportFailure ('config') when they cannot be read. */
export async function readSuppressions(root: string): Promise<Suppressions> {
  try {
    const counts: unknown = JSON.parse(await readFile(join(root, SUPPRESSIONS_FILE), 'utf8'));
    return Object.assign(Object.create(null), counts) as Suppressions;
  } catch (cause) {
    if (errnoOf(cause) === 'ENOENT') return {};
    const reason = errnoOf(cause) ?? messageOf(cause);
    throw new ReportFailure('config', `${SUPPRESSIONS_FILE} cannot be read: ${reason}`, cause);
  }
}

/** Parts the messages of one file into those that count and those that are suppressed. */
export function suppress(
  messages: readonly LintMessage[],
  allowed: Suppressions[string] | undefined,
): { messages: readonly LintMessage[]; suppressed: readonly LintMessage[] } {
  if (allowed === undefined) return { messages, suppressed: [] };
  const errors = new Map<string, number>();
  for (const { ruleId, severity } of messages) {
    if (ruleId !== null && severity === 'error') errors.set(ruleId, (errors.get(ruleId) ?? 0) + 1);
  }
  const isSuppressed = ({ ruleId }: LintMessage) => {
    if (ruleId === null || !Object.hasOwn(allowed, ruleId)) return false;
    const count = errors.get(ruleId) ?? 0;
    return count > 0 && count <= (allowed[ruleId]?.count ?? 0);
  };
  return { messages: messages.filter((message) => !isSuppressed(message)), suppressed: messages.filter(isSuppressed) };
}

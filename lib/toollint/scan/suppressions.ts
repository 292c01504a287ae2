// ESLint's bulk suppressions: for each file and rule, `eslint-suppressions.json` in the root allows a number of
// errors. As in ESLint, up to that number all of them are hidden; if there is one more, all are shown. Warnings are
// not suppressed. An entry is unused if there are fewer errors. toollint never writes the file.
import { join } from 'node:path';
import { messageOf, ReportFailure } from '../document/failure.ts';
import type { LintMessage } from '../document/file-findings.ts';
import { readSource } from '../document/source-file.ts';

export const SUPPRESSIONS_FILE = 'eslint-suppressions.json';

export type Suppressions = Readonly<Record<string, Readonly<Record<string, { readonly count: number }>>>>;

export function readSuppressions(root: string): Suppressions {
  const source = readSource(join(root, SUPPRESSIONS_FILE));
  if ('fault' in source && source.fault === 'ENOENT') return {};
  try {
    if ('fault' in source) throw new Error(source.fault);
    return Object.assign(Object.create(null), JSON.parse(source.bytes.toString())) as Suppressions;
  } catch (cause) {
    throw new ReportFailure('config', `${SUPPRESSIONS_FILE} cannot be read: ${messageOf(cause)}`, cause);
  }
}

export function suppress(messages: readonly LintMessage[], allowed: Suppressions[string] = {}) {
  const counts = new Map(Object.entries(allowed).map(([ruleId, { count }]) => [ruleId, count]));
  const errors = Map.groupBy(messages, ({ ruleId, severity }) => (severity === 'error' ? ruleId : null));
  const found = (ruleId: string | null) => errors.get(ruleId)?.length ?? 0;
  const isSuppressed = ({ ruleId }: LintMessage) =>
    found(ruleId) > 0 && found(ruleId) <= (counts.get(ruleId ?? '') ?? 0);
  const unused = [...counts].filter(([ruleId, count]) => found(ruleId) < count).length;
  const { true: suppressed = [], false: shown = [] } = Object.groupBy(messages, (one) => `${isSuppressed(one)}`);
  return { messages: shown, suppressed, unused };
}

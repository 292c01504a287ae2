import { resolve } from 'node:path';
import { kindOf, type Known } from '../compare/finding-match.ts';
import { terminalText } from '../convert/plain-text.ts';
import { usageFailure } from '../document/failure.ts';
import { textIn } from '../document/document-source.ts';
import type { Finding } from '../document/report-schema.ts';
import { existsIn } from '../document/source-file.ts';
import { baselineSource, changesSinceBaseline } from './baseline-input.ts';
import { compare } from './compare.ts';
import type { Judgment } from './judge.ts';
import { checkStandardInput, inputsOf, inputSource, parseCommand, text } from './options.ts';
import { type ProgramIo, streamSink } from './program-io.ts';
import { scan, scanOptions } from './scan.ts';
import { EXIT_OK } from './verdict.ts';

const SCOPE = { root: text, config: { type: 'string', short: 'c' }, 'path-prefix': text } as const;
export const EXPLAIN_OPTIONS = { baseline: text, report: text, ...SCOPE, renames: text } as const;

export async function runExplain(args: readonly string[], io: ProgramIo): Promise<number> {
  const { values, positionals } = parseCommand(args, EXPLAIN_OPTIONS);
  const [query = ''] = inputsOf(positionals, 'toollint explain FINGERPRINT|PATH:LINE|LINE', 1, 1);
  const { baseline: name = 'toollint-baseline.jsonl', report } = values;
  checkStandardInput([name, report]);
  const scope = scanOptions(values, [], io);
  const baseline = await baselineSource(name, io);
  const changes = changesSinceBaseline(baseline, resolve(io.cwd, name), values.renames, scope);
  if (report === undefined) io.enterLinter?.(scope.root);
  const judged =
    report === undefined
      ? await scan({ ...scope, baseline, changes })
      : await compare(baseline, await inputSource(report, io), { changes, exists: existsIn(io.cwd) });
  const line = /^[0-9]{1,7}$/u.test(query) ? (textIn(baseline).split('\n')[Number(query) - 1] ?? '') : undefined;
  const oldNames = new Map([...(judged.baseline?.renames ?? [])].map(([old, now]) => [now, old]));
  const verdicts = verdictsOf(judged, typeof changes === 'object');
  const matches = verdicts.filter((verdict) => isAsked(verdict, query, line, oldNames));
  if (matches.length === 0) throw usageFailure(`neither the findings nor ${name} have ${query}`);
  const texts = matches.map(([{ ruleId, message, fingerprint, location }, verdict]) => {
    const place = [location.path ?? '(project)', location.line, location.column].filter((part) => part !== undefined);
    const lines = [`${place.join(':')} ${ruleId} ${message}`, verdict(), `fingerprint ${fingerprint}`];
    return `${lines.map(terminalText).join('\n  ')}\n`;
  });
  await streamSink(io.stdout, 'standard output')(texts.join(''));
  return EXIT_OK;
}

/** `entry` is set for a known finding, whose fingerprint may differ from that of its entry. */
type Verdict = [finding: Finding, text: () => string, entry?: Finding];

function verdictsOf({ comparison, baseline }: Judgment, hasChanges: boolean): Verdict[] {
  if (comparison === undefined) return [];
  const { news, known, fixed, notVerifiable, doubtOf } = comparison;
  const ended = new Map(baseline?.expired.map(({ finding, accepted }) => [finding.fingerprint, accepted?.until]));
  const whyNew = (finding: Finding) => {
    const until = ended.get(finding.fingerprint);
    if (until !== undefined) return `it was accepted until ${until}`;
    const places = {
      'matched by other findings': [...known.values()].map(({ entry }) => entry),
      'fixed, and not in the same part of the file': fixed,
      'not verifiable': notVerifiable,
    };
    const parts = Object.entries(places).flatMap(([text, entries]) => {
      const count = entries.filter((entry) => kindOf(entry.finding) === kindOf(finding)).length;
      return count === 0 ? [] : `${count} ${text}`;
    });
    return `the baseline has no free line for it; of this rule and message in this file: ${parts.join(', ') || 'none'}`;
  };
  return [
    ...news.map((finding): Verdict => [finding, () => `new: ${whyNew(finding)}`]),
    ...[...known].map(([one, match]): Verdict => [one, () => whyKnown(match, hasChanges), match.entry.finding]),
    ...fixed.map(({ finding }): Verdict => [finding, () => 'fixed: its rule checked the file, and nothing matches it']),
    ...notVerifiable.map((entry): Verdict => [entry.finding, () => `not verifiable: ${doubtOf(entry)}`]),
  ];
}

function whyKnown({ entry: { accepted }, by }: Known, hasChanges: boolean): string {
  const what = by === 'text' ? 'same rule, message and flagged text' : 'same rule and message';
  const similar = by === 'text' ? 'nearest' : 'one with the most similar line';
  const where = `the ${hasChanges ? similar : 'first'} in this file that is left`;
  const reason = `known: the baseline has ${by === 'fingerprint' ? 'its fingerprint' : `one of the ${what}, ${where}`}`;
  if (accepted === undefined) return reason;
  const until = accepted.until === undefined ? '' : ` until ${accepted.until}`;
  return `${reason}; accepted${until}: ${accepted.reason}`;
}

/** `row` is the line of the baseline that is asked about; `names` has the old names of renamed files. */
function isAsked(
  [one, , entry = one]: Verdict,
  query: string,
  row: string | undefined,
  names: ReadonlyMap<string, string>,
) {
  const [file = '', id] = [entry.location.path, entry.fingerprint.slice(0, 32)];
  if (row !== undefined) return row.includes(id) && row.includes(file && JSON.stringify(names.get(file) ?? file));
  const [, path = '', line] = /^(.+?):([0-9]+)(?::[0-9]+)?$/u.exec(query) ?? [];
  if (path !== '') return one.location.path === path.replace(/^\.\//u, '') && one.location.line === Number(line);
  return query.length >= 8 && [one, entry].some(({ fingerprint }) => fingerprint.startsWith(query.toLowerCase()));
}

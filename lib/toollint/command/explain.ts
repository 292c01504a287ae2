// `toollint explain` shows why a finding is new, known, fixed or not verifiable.
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import type { BaselineEntry } from '../compare/baseline-file.ts';
import type { Known } from '../compare/finding-match.ts';
import { terminalText } from '../convert/plain-text.ts';
import { type DocumentSource, textIn } from '../document/document-source.ts';
import { usageFailure } from '../document/failure.ts';
import type { Finding } from '../document/report-schema.ts';
import { baselineInput } from './baseline-input.ts';
import { compare } from './compare.ts';
import type { Judgment } from './judge.ts';
import { exactly, inputSource, parseCommand } from './options.ts';
import { type ProgramIo, streamSink } from './program-io.ts';
import { scan, scanOptions } from './scan.ts';
import { EXIT_OK } from './verdict.ts';

export const EXPLAIN_OPTIONS = {
  baseline: { type: 'string' },
  report: { type: 'string' },
  root: { type: 'string' },
  config: { type: 'string', short: 'c' },
  'path-prefix': { type: 'string' },
  renames: { type: 'string' },
} as const;

interface Verdict {
  readonly finding: Finding;
  readonly status: 'new' | 'known' | 'fixed' | 'not verifiable';
  readonly because: string;
}

export async function runExplain(args: readonly string[], io: ProgramIo): Promise<number> {
  const { values, positionals } = parseCommand(args, EXPLAIN_OPTIONS);
  const [asked = ''] = exactly(1, positionals, 'toollint explain FINGERPRINT|LINE');
  const name = values.baseline ?? 'toollint-baseline.jsonl';
  if (!existsSync(resolve(io.cwd, name))) throw usageFailure(`there is no baseline ${name}; name one with --baseline`);
  const scope = scanOptions(values, [], io);
  const { baseline, changes } = await baselineInput({ ...values, baseline: name }, scope, io);
  if (baseline === undefined) throw usageFailure('explain needs a baseline');
  if (values.report === undefined) io.enterLinter?.(scope.root);
  const judged =
    values.report === undefined
      ? await scan({ ...scope, baseline, changes })
      : await compare(baseline, await inputSource(values.report, io), { changes });
  const verdicts = verdictsOf(judged, typeof changes === 'object');
  const found = verdicts.filter(({ finding }) => isAsked(finding, asked, baseline));
  if (found.length === 0) throw usageFailure(`neither the findings nor ${name} have ${asked}`);
  await streamSink(io.stdout, 'standard output')(found.map(textOf).join(''));
  return EXIT_OK;
}

function verdictsOf({ comparison, baseline }: Judgment, hasChanges: boolean): Verdict[] {
  if (comparison === undefined) return [];
  const { news, known, fixed, notVerifiable, doubts } = comparison;
  const ended = new Map(baseline?.expired.map((entry) => [entry.finding.fingerprint, entry]));
  const ofRule = Map.groupBy([...known.values()].map(({ entry }) => entry).concat(fixed, notVerifiable), keyOf);
  const whyNew = (finding: Finding) => {
    const until = ended.get(finding.fingerprint)?.accepted?.until;
    if (until !== undefined) return `it was accepted until ${until}`;
    const others = ofRule.get(keyOf({ finding }))?.length ?? 0;
    return `no free line of the baseline has it (${others} of this rule in this file, each known once)`;
  };
  type Status = Verdict['status'];
  const verdict = (finding: Finding, status: Status, because: string): Verdict => ({ finding, status, because });
  return [
    ...news.map((finding) => verdict(finding, 'new', whyNew(finding))),
    ...[...known].map(([finding, match]) => verdict(finding, 'known', whyKnown(match, hasChanges))),
    ...fixed.map(({ finding }) => verdict(finding, 'fixed', 'its rule checked the file and no longer reports it')),
    ...notVerifiable.map((entry) => verdict(entry.finding, 'not verifiable', doubts.get(entry) ?? '')),
  ];
}

const keyOf = ({ finding }: BaselineEntry) => JSON.stringify([finding.ruleId, finding.location.path]);

function whyKnown({ entry: { accepted }, by }: Known, hasChanges: boolean): string {
  const reason = {
    fingerprint: 'the baseline has its fingerprint',
    'changed-line':
      'the baseline has one of the same rule, message and flagged text in this ' +
      (hasChanges ? 'changed part of the file' : 'file'),
    count: 'the baseline has one in this file whose message differs in its digits only',
  }[by];
  if (accepted === undefined) return reason;
  const until = accepted.until === undefined ? '' : ` until ${accepted.until}`;
  return `${reason}; accepted${until}: ${accepted.reason}`;
}

function isAsked({ fingerprint, location }: Finding, asked: string, baseline: DocumentSource): boolean {
  if (/^[0-9]{1,7}$/u.test(asked)) {
    const line = textIn(baseline).split('\n')[Number(asked) - 1] ?? '';
    return (
      fingerprint.length === 64 && line.includes(fingerprint.slice(0, 32)) && line.includes(`"${location.path ?? ''}"`)
    );
  }
  const [, path = '', line = ''] = /^(.+?):([0-9]+)(?::[0-9]+)?$/u.exec(asked) ?? [];
  if (path !== '') return location.path === path.replace(/^\.\//u, '') && location.line === Number(line);
  return asked.length >= 8 && fingerprint.startsWith(asked.toLowerCase());
}

function textOf({ finding, status, because }: Verdict): string {
  const { ruleId, message, fingerprint, location } = finding;
  const place = [location.path ?? '(project)', location.line, location.column].filter((part) => part !== undefined);
  const head = terminalText(`${place.join(':')} ${ruleId} ${message}`);
  return `${head}\n  ${status}: ${terminalText(because)}\n  fingerprint ${terminalText(fingerprint)}\n`;
}

// Writes a pull request comment: the gate, the counts, and a table of the first findings, errors first. Escaped text
// cannot form a link, mention a person or end a table.
import { linkOf, pathUri, shortened, terminalText } from './plain-text.ts';
import type { Finding, Report } from '../document/report-schema.ts';
import { baselineCounts, bySeverity, type ConvertOptions, ownDiagnostics, placesOf, totals } from './converter.ts';

const ROWS_MAX = 100;
const BYTES_MAX = 65_536;
const CELL_UNITS_MAX = 300;
const TAIL_BYTES = 200;

export function* markdownText(report: Report, { links }: ConvertOptions): Generator<string> {
  let text = headText(report);
  let shown = 0;
  for (const finding of bySeverity(report).slice(0, ROWS_MAX)) {
    const row = `${shown === 0 ? TABLE_HEAD : ''}${rowOf(finding, links)}`;
    if (Buffer.byteLength(text) + Buffer.byteLength(row) + TAIL_BYTES > BYTES_MAX) break;
    text += row;
    shown += 1;
  }
  const more = report.findings.length - shown;
  yield more > 0 ? `${text}\n…and ${more} more.\n` : text;
}

const TABLE_HEAD = '\n| Severity | Place | Rule | Message |\n| --- | --- | --- | --- |\n';

const VERDICTS = {
  'not-evaluated': '',
  passed: '✅ passed',
  warning: '⚠️ warning',
  failed: '❌ failed',
} as const;

function headText(report: Report): string {
  const { execution, summary, selection, gate } = report;
  const lines = ['### Code analysis', ''];
  if (gate.status !== 'not-evaluated') {
    const message = gate.message === undefined ? '' : ` – ${escaped(shortened(gate.message, 1000))}`;
    lines.push(`**Gate ${escaped(gate.name ?? '')}: ${VERDICTS[gate.status]}**${message}`, '');
  }
  lines.push(`${totals(summary)}${selection.quiet ? ' (only errors are listed)' : ''}.`);
  const { baseline } = selection;
  if (baseline !== undefined) lines.push('', `Against the baseline: ${baselineCounts(baseline)}.`);
  if (execution.status !== 'complete')
    lines.push('', `**The analysis is ${execution.status === 'no-files' ? 'empty: no files' : 'incomplete'}.**`, '');
  let text = `${lines.join('\n')}\n`;
  const diagnostics = ownDiagnostics(report);
  for (const [index, one] of diagnostics.entries()) {
    const where = placesOf(one).map(escaped).join(' ');
    const line = `- ${one.kind} ${where}: ${escaped(shortened(one.message, CELL_UNITS_MAX))}\n`;
    if (Buffer.byteLength(text) + Buffer.byteLength(line) > BYTES_MAX / 2)
      return `${text}- …and ${diagnostics.length - index} more\n`;
    text += line;
  }
  return text;
}

function rowOf({ severity, ruleId, message, location, docsUrl }: Finding, links: string | undefined): string {
  const { path, line } = location;
  const named =
    path === undefined
      ? '(project)'
      : `${escaped(shortened(path, CELL_UNITS_MAX))}${line === undefined ? '' : `:${line}`}`;
  const code = path === undefined || links === undefined ? undefined : linkOf(`${links}${pathUri(path)}`);
  const place = code === undefined ? named : `[${named}](<${code}${line === undefined ? '' : `#L${line}`}>)`;
  const rule = escaped(shortened(ruleId, CELL_UNITS_MAX));
  const url = linkOf(docsUrl);
  const linked = url === undefined ? rule : `[${rule}](<${url.replace(/[<>|]/gu, encodeURIComponent)}>)`;
  return `| ${severity} | ${place} | ${linked} | ${escaped(shortened(message, CELL_UNITS_MAX))} |\n`;
}

/** Returns one line without markup. A zero-width space after '@' prevents mentions. */
function escaped(text: string): string {
  return terminalText(text)
    .replace(/[\\`*_[\]#|~$]|(?<=\])\(/gu, '\\$&')
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('@', '@\u200b')
    .replace(/:\/\//gu, ':\u200b//');
}

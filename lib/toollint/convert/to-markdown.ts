// Writes a pull request comment: the gate, the counts, and a table of the first findings, errors first. Escaped text
// cannot form a link, mention a person or end a table.
import { linkOf, shortened, sourceLink, terminalText } from './plain-text.ts';
import type { Diagnostic, Finding, Report } from '../document/report-schema.ts';
import { bySeverity, type ConvertOptions, ownDiagnostics, placesOf, summaryLines } from './converter.ts';

const ROWS_MAX = 100;
/** GitHub's limit for a comment: half for the findings, a quarter for the diagnostics, the rest for the counts. */
const BYTES_MAX = 65_536;
const CELL_UNITS_MAX = 300;
const TABLE_HEAD = '\n| Severity | Place | Rule | Message |\n| --- | --- | --- | --- |\n';
const MARKS = { failed: '❌', warning: '⚠️', passed: '✅', 'not-evaluated': '' } as const;

export function* markdownText(report: Report, { links }: ConvertOptions): Generator<string> {
  yield headOf(report);
  const lineOf = (one: Diagnostic) => `- ${one.kind} ${placesOf(one).map(escaped).join(' ')}: ${cell(one.message)}\n`;
  const diagnostics = ownDiagnostics(report).map(lineOf);
  const first = fitting(diagnostics, BYTES_MAX / 4);
  yield first.join('');
  if (first.length < diagnostics.length) yield `- …and ${diagnostics.length - first.length} more\n`;
  const worst = bySeverity(report).slice(0, ROWS_MAX);
  const rows = worst.map((finding) => rowOf(finding, links));
  const shown = fitting(rows, BYTES_MAX / 2);
  if (shown.length > 0) yield `${TABLE_HEAD}${shown.join('')}`;
  const more = report.findings.length - shown.length;
  if (more > 0) yield `\n…and ${more} more.\n`;
}

/** Returns the first texts that together have at most this many bytes. */
function fitting(texts: readonly string[], bytes: number): readonly string[] {
  let bytesLeft = bytes;
  const over = texts.findIndex((text) => (bytesLeft -= Buffer.byteLength(text)) < 0);
  return over < 0 ? texts : texts.slice(0, over);
}

function headOf(report: Report): string {
  const lines = summaryLines(report).map((line) => escaped(shortened(line, 1000)));
  return `${`### Code analysis ${MARKS[report.gate.status]}`.trimEnd()}\n\n${lines.join('\n\n')}\n`;
}

function rowOf({ severity, ruleId, message, location, docsUrl }: Finding, links: string | undefined): string {
  const { path, line } = location;
  const named = path === undefined ? '(project)' : `${cell(path)}${line === undefined ? '' : `:${line}`}`;
  const code = linkOf(sourceLink(links, location));
  const place = code === undefined ? named : `[${named}](<${code}>)`;
  const url = linkOf(docsUrl);
  const rule = url === undefined ? cell(ruleId) : `[${cell(ruleId)}](<${url.replace(/[<>|]/gu, encodeURIComponent)}>)`;
  return `| ${severity} | ${place} | ${rule} | ${cell(message)} |\n`;
}

const cell = (text: string): string => escaped(shortened(text, CELL_UNITS_MAX));

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

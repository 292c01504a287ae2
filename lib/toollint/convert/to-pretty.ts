// Text for people: findings grouped by file, then the summary. On a terminal, no line is wider than the terminal.
import { styleText } from 'node:util';
import { shortened, terminalText } from './plain-text.ts';
import type { Finding, Report, Severity } from '../document/report-schema.ts';
import { type ConvertOptions, ownDiagnostics, placesOf, summaryLines } from './converter.ts';

type Paint = (style: 'bold' | 'red' | 'yellow' | 'cyan' | 'green' | 'dim', text: string) => string;

const COLORS: Readonly<Record<Severity, 'red' | 'yellow' | 'cyan'>> = { error: 'red', warning: 'yellow', info: 'cyan' };
const WIDTH_MIN = 20;

export function* prettyText(report: Report, options: ConvertOptions): Generator<string> {
  const width = Math.max(WIDTH_MIN, options.width ?? Infinity);
  const paint: Paint =
    options.color === true ? (style, text) => styleText(style, text, { validateStream: false }) : (_, text) => text;
  let open: string | undefined;
  for (const finding of report.findings) {
    const name = finding.location.path ?? '(project)';
    if (name !== open) {
      yield `${open === undefined ? '' : '\n'}${paint('bold', shortened(terminalText(name), width))}\n`;
      open = name;
    }
    yield findingLine(finding, width, paint);
  }
  yield `${open === undefined ? '' : '\n'}${ending(report, width, paint)}`;
}

function findingLine({ severity, message, ruleId, location }: Finding, width: number, paint: Paint): string {
  const place = location.line === undefined ? '-' : `${location.line}:${location.column ?? '-'}`;
  const head = `  ${place.padEnd(8)} ${severity.padEnd(7)}  `;
  const rule = `  ${terminalText(ruleId)}`;
  if (width < 50) {
    const line = shortened(`  ${place} ${severity} ${terminalText(message)}`, width);
    return `${paint(COLORS[severity], line)}\n${paint('dim', shortened(`  ${rule}`, width))}\n`;
  }
  const shownRule = shortened(rule, Math.floor(width / 2));
  const shown = shortened(terminalText(message), Math.max(8, width - head.length - shownRule.length));
  const painted = `${paint('dim', place.padEnd(8))} ${paint(COLORS[severity], severity.padEnd(7))}`;
  return `  ${painted}  ${shown}${paint('dim', shownRule)}\n`;
}

function ending(report: Report, width: number, paint: Paint): string {
  const { execution, gate, summary } = report;
  const texts = ownDiagnostics(report).map((one) => `${[one.kind, ...placesOf(one)].join(' ')}: ${one.message}`);
  const diagnostics = texts.map((text) => `${paint('red', shortened(terminalText(text), width))}\n`);
  const good = execution.status === 'complete' && gate.status !== 'failed' && summary.totalIssues === 0;
  const lines = summaryLines(report).map((line) => `${paint(good ? 'green' : 'bold', shortened(line, width))}\n`);
  return [...diagnostics, ...lines].join('');
}

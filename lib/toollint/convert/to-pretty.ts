// For a person at a terminal: findings under the name of their file, then the summary. Whatever a message holds, only
// plain characters reach the terminal, and no line is wider than it.
import { styleText } from 'node:util';
import type { ConvertOptions } from './convert-options.ts';
import { terminalText } from './plain-text.ts';
import { fitted, textWidth } from './text-width.ts';
import type { Finding, ReportHeader, Severity } from '../document/report-schema.ts';
import type { ReportSource } from '../document/report-source.ts';
import type { TextSink } from '../document/report-writer.ts';
import { summaryLines } from './to-summary.ts';

type Paint = (style: 'bold' | 'red' | 'yellow' | 'cyan' | 'green' | 'dim', text: string) => string;

const COLORS: Readonly<Record<Severity, 'red' | 'yellow' | 'cyan'>> = { error: 'red', warning: 'yellow', info: 'cyan' };
const WIDTH_MIN = 20;

/** Writes the text. */
export async function writePretty(
  { header, findings }: ReportSource,
  sink: TextSink,
  options: ConvertOptions,
): Promise<void> {
  const width = Math.max(WIDTH_MIN, options.width ?? 80);
  const paint: Paint =
    options.color === true ? (style, text) => styleText(style, text, { validateStream: false }) : (_, text) => text;
  let open: string | undefined;
  for await (const batch of findings()) {
    let text = '';
    for (const finding of batch) {
      const name = finding.location.path ?? '(project)';
      if (name !== open) {
        text += `${open === undefined ? '' : '\n'}${paint('bold', fitted(terminalText(name), width))}\n`;
        open = name;
      }
      text += findingLine(finding, width, paint);
    }
    if (text !== '') await sink(text);
  }
  await sink(`${open === undefined ? '' : '\n'}${ending(header, width, paint)}`);
}

function findingLine({ severity, message, ruleId, location }: Finding, width: number, paint: Paint): string {
  const place = location.line === undefined ? '-' : `${location.line}:${location.column ?? '-'}`;
  const head = `  ${place.padEnd(8)} ${severity.padEnd(7)}  `;
  const rule = `  ${terminalText(ruleId)}`;
  if (width < 50) {
    const line = fitted(`  ${place} ${severity} ${terminalText(message)}`, width);
    return `${paint(COLORS[severity], line)}\n${paint('dim', fitted(`  ${rule}`, width))}\n`;
  }
  const shownRule = fitted(rule, Math.floor(width / 2));
  const shown = fitted(terminalText(message), Math.max(8, width - head.length - textWidth(shownRule)));
  return `  ${paint('dim', place.padEnd(8))} ${paint(COLORS[severity], severity.padEnd(7))}  ${shown}${paint('dim', shownRule)}\n`;
}

function ending(header: ReportHeader, width: number, paint: Paint): string {
  const { execution, gate, summary } = header;
  const diagnostics = execution.diagnostics.map(({ kind, message, ruleId, relativePath }) => {
    const where = [relativePath, ruleId].filter((part) => part !== undefined).join(' ');
    return `${paint('red', fitted(terminalText(`${kind} ${where}: ${message}`), width))}\n`;
  });
  const good = execution.status === 'complete' && gate.status !== 'failed' && summary.totalIssues === 0;
  const lines = summaryLines(header).map((line) => `${paint(good ? 'green' : 'bold', fitted(line, width))}\n`);
  return [...diagnostics, ...lines].join('');
}

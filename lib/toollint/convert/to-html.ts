// Writes one self-contained HTML page (frame: html-report.html). The page loads nothing and is complete without its
// script, which only adds filters.
//
// All text from the report is escaped, and only http and https URLs become links. The Content-Security-Policy of the
// page allows only its own script and style, by hash.
import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { flaggedTextOf, lintersOf } from '../document/extension.ts';
import { SEVERITIES } from '../document/report-format.ts';
import type { Finding, Report } from '../document/report-schema.ts';
import { baselineCounts, type ConvertOptions, placesOf, type Stated, statedFindings } from './converter.ts';
import { counted, linkOf, markupText, sourceLink, terminalLines } from './plain-text.ts';

const DIAGNOSTICS_OPEN = 5;
/** A file is expanded if fewer findings than this are above it. */
const OPEN_FINDINGS_MAX = 50;

export function* htmlText(report: Report, options: ConvertOptions): Generator<string> {
  const frame = readFileSync(new URL('html-report.html', import.meta.url), 'utf8');
  const rows = statedFindings(report, options);
  const [head = '', tail = ''] = frame.split('{{files}}');
  const count = counted(rows.length, 'finding');
  const values = new Map(Object.entries({ policy: policyOf(frame), ...headOf(report, rows), count }));
  yield head.replace(/\{\{(\w+)\}\}/gu, (_, name: string) => values.get(name) ?? '');
  yield* filesOf(rows, options.links);
  yield tail;
}

function headOf(report: Report, rows: readonly Stated[]) {
  const title = escaped(`${report.tool.name} ${report.scan.target?.path ?? ''}`.trim());
  const diagnostics = report.execution.status === 'complete' ? '' : diagnosticsOf(report);
  return { title, facts: diagnostics + verdictOf(report, rows) + factsOf(report) };
}

function policyOf(frame: string): string {
  const [style, script] = ['style', 'script'].map((tag) => {
    const text = new RegExp(`<${tag}>(.*?)</${tag}>`, 'su').exec(frame)?.[1] ?? '';
    return `'sha256-${hash('sha256', text, 'base64')}'`;
  });
  const own = `script-src ${script}; style-src ${style}`;
  return `default-src 'none'; ${own}; img-src data:; base-uri 'none'; form-action 'none'`;
}

function diagnosticsOf({ execution: { status, diagnostics } }: Report): string {
  const what = status === 'no-files' ? 'No files were analyzed' : 'The analysis is incomplete';
  const items = diagnostics.map((one) => {
    const places = placesOf(one).map((place) => ` <code>${escaped(place)}</code>`);
    return `<li>${one.kind}${places.join('')}: ${escaped(one.message)}</li>`;
  });
  const [first, rest] = [items.slice(0, DIAGNOSTICS_OPEN), items.slice(DIAGNOSTICS_OPEN)];
  const more = `<details><summary>${rest.length} more</summary><ul>${rest.join('')}</ul></details>`;
  return (
    `<section class="card alert" role="alert"><p class="verdict failed">${what}: ` +
    `${counted(items.length, 'diagnostic')}</p><ul>${first.join('')}</ul>${rest.length > 0 ? more : ''}</section>\n`
  );
}

/** The verdict and the counts are one card, so that a report without findings differs at first sight. */
function verdictOf({ gate, summary, selection, execution, scan }: Report, rows: readonly Stated[]): string {
  const { baseline, quiet } = selection;
  const { totalIssues, bySeverity } = summary;
  const judged = gate.status !== 'not-evaluated';
  const isGood = judged ? gate.status === 'passed' : totalIssues === 0 && execution.status === 'complete';
  // Without a gate, the exit code of a scan or a comparison depends on the errors; an import alone does not fail.
  const isError = ({ finding, state = 'new' }: Stated) => finding.severity === 'error' && state === 'new';
  const canFail = scan.scopeKnown || baseline !== undefined;
  const isBad = judged ? gate.status === 'failed' : canFail && rows.some(isError);
  const edge = isGood ? 'good' : isBad || execution.status !== 'complete' ? 'bad' : 'warn';
  const total = totalIssues === 0 ? 'No findings' : `${grouped(totalIssues)} finding${totalIssues === 1 ? '' : 's'}`;
  const lines = [
    ...[gate.message, judged ? total : undefined],
    ...[baseline && `Baseline: ${baselineCounts(baseline)}`, quiet ? 'Only errors are listed' : undefined],
  ].filter((line) => line !== undefined);
  const legend = SEVERITIES.map((one) => {
    const number = `<b class="${bySeverity[one] === 0 ? '' : one}" id="count-${one}">${grouped(bySeverity[one])}</b>`;
    return `<li${bySeverity[one] === 0 ? ' class="muted"' : ''}>${number} ${one}</li>`;
  });
  return (
    `<section class="card ${edge}"><h1>Code analysis</h1>` +
    `<p class="verdict ${judged ? gate.status : isGood ? 'passed' : 'found'}">` +
    `${judged ? `Gate ${escaped(gate.name ?? '')}: ${gate.status}` : total}</p><ul class="legend">${legend.join('')}` +
    `</ul>${lines.map((line) => `<p>${escaped(line)}</p>`).join('')}</section>\n`
  );
}

/** Folded, because the names of the scanned files may fill several screens. */
function factsOf({ tool, scan, summary }: Report): string {
  const linters = lintersOf({ tool }).map(({ name, version }) => `, ${name} ${version}`);
  const facts = {
    With: `${tool.name} ${tool.version}${linters.join('')}`,
    Rules: `${scan.enabledRuleIds.length} on${scan.profile === null ? '' : `, profile ${scan.profile}`}`,
    At: `${scan.timestamp}, in ${(scan.durationMs / 1000).toFixed(1)} s`,
    Included: scan.include.join(' '),
    Excluded: scan.exclude.join(' '),
  };
  const list = Object.entries(facts).map(([name, text]) => text && `<dt>${name}</dt><dd>${escaped(text)}</dd>`);
  const scanned = `${scan.target?.path ?? 'unknown'} (${counted(summary.totalFiles, 'file')})`;
  const folded = `<summary>Scanned: ${escaped(scanned)}</summary><dl class="facts">${list.join('')}</dl>`;
  return `<details class="card">${folded}</details>\n`;
}

function* filesOf(rows: readonly Stated[], links: string | undefined): Generator<string> {
  let above = 0;
  for (const [path, own] of Map.groupBy(rows, ({ finding }) => pathOf(finding))) {
    const name = escaped(path);
    yield `<details class="file" data-path="${name}"${above < OPEN_FINDINGS_MAX ? ' open' : ''}>`;
    yield `<summary><span>${name}</span><span class="muted">${counted(own.length, 'finding')}</span></summary><ul>`;
    for (const row of own) yield itemOf(row, links);
    yield '</ul></details>\n';
    above += own.length;
  }
}

/** Few nodes, because a page may have 25,000 findings. The style sheet adds the severity and the state. */
function itemOf({ finding, state }: Stated, links: string | undefined): string {
  const { severity, ruleId, message, location, docsUrl, suggestion } = finding;
  const place = [location.line, location.column].filter((part) => part !== undefined).join(':');
  return (
    `<li class="${severity}" data-rule="${escaped(ruleId)}"${state === undefined ? '' : ` data-state="${state}"`}>` +
    `${anchor(sourceLink(links, location), place)} ${escaped(message)} ${anchor(docsUrl, ruleId)}` +
    `${snippetOf(finding)}${suggestion === undefined ? '' : `<p>${escaped(suggestion)}</p>`}`
  );
}

function snippetOf(finding: Finding): string {
  const { codeSnippet: snippet } = finding;
  if (snippet === undefined) return '';
  const flagged = flaggedTextOf(finding)?.trimEnd() ?? '';
  const around = flagged === '' ? [] : snippet.split(flagged);
  const parts = around.length === 2 ? around : [snippet];
  return `<pre>${parts.map(escaped).join(`<mark>${escaped(flagged)}</mark>`)}</pre>`;
}

function anchor(url: string | undefined, text: string): string {
  const href = linkOf(url);
  const shown = escaped(text);
  return href === undefined || text === '' ? shown : `<a href="${escaped(href)}">${shown}</a>`;
}

const pathOf = ({ location }: Finding): string => location.path ?? '(project)';

const grouped = (count: number): string => count.toLocaleString('en-US');

const escaped = (text: string): string => markupText(terminalLines(text));

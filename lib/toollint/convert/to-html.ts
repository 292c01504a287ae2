// Writes one self-contained HTML page (frame: html-report.html). The page loads nothing and is complete without its
// script, which only adds filters.
//
// All text from the report is escaped, and only http and https URLs become links. The Content-Security-Policy of the
// page allows only its own script and style, by hash.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { flaggedTextOf, lintersOf } from '../document/extension.ts';
import { SEVERITIES } from '../document/report-format.ts';
import type { Finding, Report } from '../document/report-schema.ts';
import { baselineCounts, type ConvertOptions, placesOf, totals } from './converter.ts';
import { counted, linkOf, markupText, pathUri, terminalLines } from './plain-text.ts';

const DIAGNOSTICS_OPEN = 5;
/** A file is expanded if fewer findings than this are above it. */
const OPEN_FINDINGS_MAX = 50;
const CHOICES_MAX = 500;

const PROJECT = '(project)';

type State = 'new' | 'unchanged' | 'fixed';

interface Row {
  readonly finding: Finding;
  readonly state: State | undefined;
}

export function* htmlText(report: Report, options: ConvertOptions): Generator<string> {
  const frame = readFileSync(new URL('html-report.html', import.meta.url), 'utf8');
  const rows = rowsOf(report, options);
  const [head = '', tail = ''] = frame.split('{{content}}');
  const title = `${report.tool.name} ${report.scan.target?.path ?? ''}`.trim();
  yield head.replace('{{policy}}', () => policyOf(frame)).replace('{{title}}', () => escaped(title));
  yield* diagnosticsOf(report);
  yield verdictOf(report);
  yield factsOf(report);
  yield filtersOf(rows);
  yield* filesOf(rows, options.links);
  yield tail;
}

const policyOf = (frame: string): string => {
  const hashOf = (tag: string): string => {
    const text = new RegExp(`<${tag}>(.*?)</${tag}>`, 'su').exec(frame)?.[1] ?? '';
    return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
  };
  const own = `script-src ${hashOf('script')}; style-src ${hashOf('style')}`;
  return `default-src 'none'; ${own}; img-src data:; base-uri 'none'; form-action 'none'`;
};

function rowsOf(report: Report, { baselineState, absent = [] }: ConvertOptions): Row[] {
  const stateOf = baselineState ?? (() => (report.selection.baseline === undefined ? undefined : ('new' as const)));
  return [
    ...report.findings.map((finding) => ({ finding, state: stateOf(finding) })),
    ...absent.map((finding) => ({ finding, state: 'fixed' as const })),
  ];
}

function* diagnosticsOf({ execution: { status, diagnostics } }: Report): Generator<string> {
  if (status === 'complete') return;
  const what = status === 'no-files' ? 'No files were analyzed' : 'The analysis is incomplete';
  const items = diagnostics.map((one) => {
    const places = placesOf(one).map((place) => ` <code>${escaped(place)}</code>`);
    return `<li>${one.kind}${places.join('')}: ${escaped(one.message)}</li>`;
  });
  const [first, rest] = [items.slice(0, DIAGNOSTICS_OPEN), items.slice(DIAGNOSTICS_OPEN)];
  yield `<section class="card alert" role="alert"><p class="verdict failed">${what}: `;
  yield `${counted(diagnostics.length, 'diagnostic')}</p><ul>${first.join('')}</ul>`;
  if (rest.length > 0) yield `<details><summary>${rest.length} more</summary><ul>${rest.join('')}</ul></details>`;
  yield '</section>\n';
}

/** The verdict and the counts are one card, so that a report without findings differs at first sight. */
function verdictOf({ gate, summary, selection: { baseline, quiet }, execution }: Report): string {
  const { totalIssues, bySeverity } = summary;
  const judged = gate.status !== 'not-evaluated';
  const isGood = judged ? gate.status === 'passed' : totalIssues === 0 && execution.status === 'complete';
  const found = totalIssues === 0 ? 'No findings' : `${grouped(totalIssues)} finding${totalIssues === 1 ? '' : 's'}`;
  const verdict = judged ? `Gate ${escaped(gate.name ?? '')}: ${gate.status}` : found;
  const lines = [
    gate.message,
    judged ? found : undefined,
    baseline === undefined ? undefined : `Baseline: ${baselineCounts(baseline)}`,
    quiet ? 'Only errors are listed' : undefined,
  ].filter((line) => line !== undefined);
  const legend = SEVERITIES.map((one) => {
    const count = bySeverity[one];
    return `<li${count === 0 ? ' class="muted"' : ''}><b class="${count === 0 ? '' : one}" id="count-${one}">${grouped(count)}</b> ${one}</li>`;
  });
  return (
    `<section class="card ${gate.status === 'warning' ? 'warn' : isGood ? 'good' : 'bad'}"><h1>Code analysis</h1>` +
    `<p class="verdict ${judged ? gate.status : isGood ? 'passed' : 'found'}">${verdict}</p>` +
    `${barOf(summary)}<ul class="legend">${legend.join('')}</ul>` +
    `${lines.map((line) => `<p>${escaped(line)}</p>`).join('')}</section>\n`
  );
}

function barOf(summary: Report['summary']): string {
  if (summary.totalIssues === 0) return '';
  let x = 0;
  const parts = SEVERITIES.map((severity) => {
    const width = (100 * summary.bySeverity[severity]) / summary.totalIssues;
    x += width;
    return `<rect class="${severity}" x="${x - width}" width="${width}" height="14"/>`;
  });
  const label = `role="img" aria-label="${totals(summary)}"`;
  return `<svg viewBox="0 0 100 14" preserveAspectRatio="none" ${label}>${parts.join('')}</svg>`;
}

/** Folded, because the names of the scanned files may fill several screens. */
function factsOf({ tool, scan, summary }: Report): string {
  const linters = lintersOf({ tool }).map(({ name, version }) => `, ${name} ${version}`);
  const facts = [
    ['With', `${tool.name} ${tool.version}${linters.join('')}`],
    ['Rules', `${scan.enabledRuleIds.length} on${scan.profile === null ? '' : `, profile ${scan.profile}`}`],
    ['At', `${scan.timestamp}, in ${(scan.durationMs / 1000).toFixed(1)} s`],
    ['Included', scan.include.join(' ')],
    ['Excluded', scan.exclude.join(' ')],
  ] as const;
  const list = facts.flatMap(([name, text]) => (text === '' ? [] : `<dt>${name}</dt><dd>${escaped(text)}</dd>`));
  const scanned = `${scan.target?.path ?? 'unknown'} (${counted(summary.totalFiles, 'file')})`;
  return `<details class="card"><summary>Scanned: ${escaped(scanned)}</summary><dl class="facts">${list.join('')}</dl></details>\n`;
}

function filtersOf(rows: readonly Row[]): string {
  if (rows.length === 0) return '';
  const findings = rows.map(({ finding }) => finding);
  const select = (name: string, title: string, values: readonly string[]): string => {
    const choices = values
      .slice(0, CHOICES_MAX)
      .map((one) => `<option value="${escaped(one)}">${escaped(one)}</option>`);
    return `<label>${title}<select name="${name}"><option value="">all</option>${choices.join('')}</select></label>`;
  };
  const boxes = SEVERITIES.map(
    (one) => `<label><input type="checkbox" name="severity" value="${one}" checked>${one}</label>`,
  );
  const rules = new Set(findings.map(({ ruleId }) => ruleId));
  const folders = new Set(findings.flatMap((finding) => /^.*\//u.exec(pathOf(finding)) ?? []));
  const states = [...new Set(rows.map(({ state }) => state))].filter((state) => state !== undefined);
  return (
    '<form class="card" hidden aria-label="Filters"><details open><summary>Filters</summary><div class="filters">' +
    `<fieldset aria-label="Severity">${boxes.join('')}</fieldset>` +
    select('rule', 'Rule', [...rules].sort()) +
    select('folder', 'Folder', [...folders].sort()) +
    (states.length === 0 ? '' : select('state', 'Since the baseline', states)) +
    '<label>Text<input type="search" name="text"></label><button type="reset">Reset</button>' +
    '<button type="button" id="toggle">Open or close all</button></div></details>' +
    `<output class="muted">${counted(rows.length, 'finding')}</output></form>\n`
  );
}

function* filesOf(rows: readonly Row[], links: string | undefined): Generator<string> {
  let above = 0;
  for (const [path, own] of Map.groupBy(rows, ({ finding }) => pathOf(finding))) {
    const name = escaped(path);
    const isOpen = above < OPEN_FINDINGS_MAX ? ' open' : '';
    above += own.length;
    yield `<details class="file" data-path="${name}"${isOpen}><summary><span>${name}</span>`;
    yield `<span class="muted">${counted(own.length, 'finding')}</span></summary><ul>`;
    for (const row of own) yield itemOf(row, links);
    yield '</ul></details>\n';
  }
}

/**
 * Uses few nodes per finding, because a page may contain 25,000 findings. The style sheet adds the severity and the
 * state.
 */
function itemOf({ finding, state }: Row, links: string | undefined): string {
  const { severity, ruleId, message, location, docsUrl, suggestion } = finding;
  const place = [location.line, location.column].filter((part) => part !== undefined).join(':');
  const code = links === undefined || location.path === undefined ? undefined : `${links}${pathUri(location.path)}`;
  const line = location.line === undefined ? '' : `#L${location.line}`;
  return (
    `<li class="${severity}" data-rule="${escaped(ruleId)}"${state === undefined ? '' : ` data-state="${state}"`}>` +
    `${anchor(code === undefined ? undefined : `${code}${line}`, place)} ${escaped(message)} ` +
    anchor(docsUrl, ruleId) +
    snippetOf(finding) +
    (suggestion === undefined ? '' : `<p>${escaped(suggestion)}</p>`)
  );
}

/** Marks the flagged text if it occurs exactly once. */
function snippetOf(finding: Finding): string {
  const { codeSnippet: snippet } = finding;
  if (snippet === undefined) return '';
  const flagged = flaggedTextOf(finding)?.trimEnd() ?? '';
  const from = flagged === '' ? -1 : snippet.indexOf(flagged);
  if (from === -1 || snippet.includes(flagged, from + 1)) return `<pre>${escaped(snippet)}</pre>`;
  const after = snippet.slice(from + flagged.length);
  return `<pre>${escaped(snippet.slice(0, from))}<mark>${escaped(flagged)}</mark>${escaped(after)}</pre>`;
}

function anchor(url: string | undefined, text: string): string {
  const href = linkOf(url);
  const shown = escaped(text);
  return href === undefined || text === '' ? shown : `<a href="${escaped(href)}">${shown}</a>`;
}

const pathOf = ({ location }: Finding): string => location.path ?? PROJECT;

const grouped = (count: number): string => count.toLocaleString('en-US');

const escaped = (text: string): string => markupText(terminalLines(text));

// Writes one self-contained HTML page (frame: html-report.html). The page loads nothing and is complete without its
// script, which only adds filters.
//
// All text from the report is escaped, and only http and https URLs become links. The Content-Security-Policy of the
// page allows only its own script and style, by hash.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { fixOf, flaggedTextOf, lintersOf } from '../document/extension.ts';
import { SEVERITIES } from '../document/report-format.ts';
import type { Finding, Report } from '../document/report-schema.ts';
import { baselineCounts, type ConvertOptions, placesOf, totals } from './converter.ts';
import { counted, linkOf, markupText, pathUri, terminalLines } from './plain-text.ts';

const TOP = 10;
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
  yield* headOf(report);
  yield severitiesOf(report);
  yield topsOf(rows);
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

function* headOf({ tool, execution, scan, selection, gate, summary }: Report): Generator<string> {
  if (execution.status !== 'complete') {
    const what = execution.status === 'no-files' ? 'No files were analyzed' : 'The analysis is incomplete';
    const items = execution.diagnostics.map((one) => {
      const places = placesOf(one).map((place) => ` <code>${escaped(place)}</code>`);
      return `<li>${one.kind}${places.join('')}: ${escaped(one.message)}</li>`;
    });
    const about = counted(execution.diagnostics.length, 'diagnostic');
    yield `<section class="card alert" role="alert"><p class="verdict failed">${what}: ${about}</p>`;
    yield `<ul>${items.join('')}</ul></section>\n`;
  }
  const linters = lintersOf({ tool }).map(({ name, version }) => `, ${name} ${version}`);
  const facts: [string, string][] = [
    ['Scanned', `${scan.target?.path ?? 'unknown'} (${counted(summary.totalFiles, 'file')})`],
    ['With', `${tool.name} ${tool.version}${linters.join('')}`],
    ['Rules', `${scan.enabledRuleIds.length} on${scan.profile === null ? '' : `, profile ${scan.profile}`}`],
    ['At', `${scan.timestamp}, in ${(scan.durationMs / 1000).toFixed(1)} s`],
  ];
  if (scan.include.length > 0) facts.push(['Included', scan.include.join(' ')]);
  if (scan.exclude.length > 0) facts.push(['Excluded', scan.exclude.join(' ')]);
  if (selection.baseline !== undefined) facts.push(['Baseline', baselineCounts(selection.baseline)]);
  if (selection.quiet) facts.push(['Listed', 'errors only']);
  const list = facts.map(([name, text]) => `<dt>${name}</dt><dd>${escaped(text)}</dd>`);
  yield `<section class="card"><h1>Code analysis</h1><dl class="facts">${list.join('')}</dl></section>\n`;
  if (gate.status === 'not-evaluated') return;
  const message = gate.message === undefined ? '' : `<p>${escaped(gate.message)}</p>`;
  yield `<section class="card"><p class="verdict ${gate.status}">Gate ${escaped(gate.name ?? '')}: ${gate.status}</p>`;
  yield `${message}</section>\n`;
}

function severitiesOf({ summary }: Report): string {
  const whole = SEVERITIES.reduce((sum, severity) => sum + summary.bySeverity[severity], 0);
  let x = 0;
  const parts = SEVERITIES.map((severity) => {
    const width = whole === 0 ? 0 : (100 * summary.bySeverity[severity]) / whole;
    x += width;
    return `<rect class="${severity}" x="${x - width}" width="${width}" height="14"/>`;
  });
  const legend = SEVERITIES.map(
    (severity) =>
      `<li><b class="${severity}" id="count-${severity}">${grouped(summary.bySeverity[severity])}</b> ${severity}</li>`,
  );
  return (
    `<section class="card"><h2>${grouped(summary.totalIssues)} findings by severity</h2>` +
    '<svg class="severities" viewBox="0 0 100 14" preserveAspectRatio="none" role="img" ' +
    `aria-label="${totals(summary)}">` +
    `${parts.join('')}</svg><ul class="legend">${legend.join('')}</ul></section>\n`
  );
}

function topsOf(rows: readonly Row[]): string {
  const present = rows.filter(({ state }) => state !== 'fixed').map(({ finding }) => finding);
  if (present.length === 0) return '';
  const card = (title: string, nameOf: (finding: Finding) => string): string => {
    const top = counts(present, nameOf).slice(0, TOP);
    const most = top[0]?.[1] ?? 1;
    const bars = top.map(
      ([name, count]) =>
        `<li><span>${escaped(name)}</span><svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">` +
        `<rect width="${(100 * count) / most}" height="8"/></svg><span>${grouped(count)}</span></li>`,
    );
    return `<section class="card"><h2>${title}</h2><ul class="bars">${bars.join('')}</ul></section>`;
  };
  const rules = card('Rules with the most findings', ({ ruleId }) => ruleId);
  return `<div class="tops">${rules}${card('Files with the most findings', pathOf)}</div>\n`;
}

function filtersOf(rows: readonly Row[]): string {
  if (rows.length === 0) return '<section class="card"><p>There are no findings.</p></section>\n';
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
  const rules = counts(findings, ({ ruleId }) => ruleId).map(([name]) => name);
  const folders = counts(findings, (finding) => /^.*\//u.exec(pathOf(finding))?.[0] ?? '').map(([name]) => name);
  const states = [...new Set(rows.map(({ state }) => state))].filter((state) => state !== undefined);
  return (
    `<form class="card" hidden aria-label="Filters"><fieldset aria-label="Severity">${boxes.join('')}</fieldset>` +
    select('rule', 'Rule', rules.toSorted()) +
    select('folder', 'Folder', folders.filter((name) => name !== '').toSorted()) +
    (states.length === 0 ? '' : select('state', 'Since the baseline', states)) +
    '<label>Text<input type="search" name="text"></label><button type="reset">Reset</button>' +
    '<button type="button" id="toggle">Open or close all</button>' +
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
  const fix = fixOf(finding);
  return (
    `<li class="${severity}" data-rule="${escaped(ruleId)}"${state === undefined ? '' : ` data-state="${state}"`}>` +
    `${anchor(code === undefined ? undefined : `${code}${line}`, place)} ${escaped(message)} ` +
    anchor(docsUrl, ruleId) +
    snippetOf(finding) +
    (suggestion === undefined ? '' : `<p>${escaped(suggestion)}</p>`) +
    (fix === undefined ? '' : `<pre class="fix">${escaped(fix.text)}</pre>`)
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

function counts(findings: readonly Finding[], nameOf: (finding: Finding) => string): [string, number][] {
  const found = new Map<string, number>();
  for (const finding of findings) found.set(nameOf(finding), (found.get(nameOf(finding)) ?? 0) + 1);
  return [...found].toSorted(([, one], [, other]) => other - one);
}

const grouped = (count: number): string => count.toLocaleString('en-US');

const escaped = (text: string): string => markupText(terminalLines(text));

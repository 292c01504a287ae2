import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, it } from 'node:test';
import type { Finding, Report } from '../../lib/toollint/toollint.ts';
import { temporaryFolder } from '../support/scope.ts';
import { sampleFinding, sampleReport } from '../toollint/support/samples.ts';
import { assertFits, visit } from './browser.ts';

const TOOLLINT = join(import.meta.dirname, '../../bin/toollint');
const HOSTILE = '<img src=x onerror=alert(1)>"\'&<script>alert(2)</script>';
const folder = temporaryFolder();

const SEVERITIES = ['error', 'warning', 'info'] as const;

const findingOf = (index: number, more: object = {}): Finding => ({
  ...sampleFinding({
    ...{ ruleId: `rule-${index % 37}`, severity: SEVERITIES[index % 3] ?? 'info', message: `Unexpected call ${index}` },
    ...{ path: `src/area${index % 13}/file${index % 900}.ts`, line: index + 1, column: 7, text: `call ${index}` },
  }),
  codeSnippet: 'const thing = call();',
  docsUrl: 'https://lint.example/rules/rule',
  ...more,
});
const findings = (count: number): Finding[] => Array.from({ length: count }, (_, index) => findingOf(index));

/** A report that the strict gate failed, with these changes. */
const reportOf = (found: readonly Finding[], change: (report: Report) => unknown = () => undefined): Report =>
  sampleReport(found, (report) => {
    report.gate = { status: 'failed', name: 'strict', message: 'errors 2 > 0' };
    report.scan.enabledRuleIds = findings(37).map(({ ruleId }) => ruleId);
    change(report);
  });
const ungated = (report: Report): unknown => (report.gate = { status: 'not-evaluated' });

let pages = 0;
function pageOf(report: object, ...args: string[]): string {
  const [from, to] = [join(folder, `${++pages}.json`), join(folder, `${pages}.html`)];
  writeFileSync(from, JSON.stringify(report));
  execFileSync(TOOLLINT, ['convert', from, '--to', `html=${to}`, ...args]);
  return pathToFileURL(to).href;
}

describe('the HTML report', () => {
  it('has the counts of the document, and shows every finding under its file', async () => {
    const report = reportOf(findings(40));
    const { page, faults } = await visit(pageOf(report, '--source-url', 'https://host.example/o/r/blob/abc'));
    for (const severity of SEVERITIES)
      assert.equal(Number(await page.textContent(`#count-${severity}`)), report.summary.bySeverity[severity]);
    assert.equal(await page.locator('.file li').count(), 40);
    assert.match((await page.textContent('.verdict')) ?? '', /Gate strict: failed/);
    const link = page.locator('.file li a').first();
    assert.equal(await link.getAttribute('href'), 'https://host.example/o/r/blob/abc/src/area0/file0.ts#L1');
    assert.deepEqual(faults, []);
  });

  it('filters by severity, rule, folder and text', async () => {
    const { page, faults } = await visit(pageOf(reportOf(findings(60))));
    const shows = (text: string) => page.waitForSelector(`output >> text="${text}"`);
    await page.uncheck('[value=info]');
    await shows('40 of 60 findings');
    await page.selectOption('[name=rule]', 'rule-1');
    await shows('1 of 60 findings');
    await page.click('[type=reset]');
    await page.selectOption('[name=folder]', 'src/area0/');
    await shows('5 of 60 findings');
    await page.fill('[name=text]', 'call 13');
    await shows('1 of 60 findings');
    assert.equal(await page.locator('.file:visible').count(), 1);
    assert.deepEqual(faults, []);
  });

  it('shows hostile text as text', async () => {
    const hostile = findingOf(0, {
      ...{ ruleId: HOSTILE, message: HOSTILE, codeSnippet: HOSTILE, suggestion: HOSTILE },
      docsUrl: 'javascript:alert(3)',
      location: { scope: 'file', path: `${HOSTILE}.ts`, line: 1, column: 1 },
    });
    const report = reportOf([hostile], (one) => {
      one.scan.enabledRuleIds.push(HOSTILE);
      const diagnostics = [{ kind: 'rule-error' as const, message: HOSTILE, ruleId: HOSTILE }];
      one.execution = { status: 'incomplete', diagnostics };
      one.gate = { status: 'failed', name: HOSTILE, message: HOSTILE };
    });
    const { page, faults } = await visit(pageOf(report));
    assert.ok((await page.textContent('.file li'))?.includes(HOSTILE));
    assert.equal(await page.locator('img, main script, a[href^=javascript]').count(), 0);
    assert.deepEqual(faults, []);
  });

  it('shows first that an analysis is incomplete, and why', async () => {
    const diagnostic = { kind: 'parse-error' as const, message: 'Unexpected token }', relativePath: 'src/broken.ts' };
    const report = reportOf([findingOf(0)], (one) => {
      one.execution = { status: 'incomplete', diagnostics: [diagnostic] };
    });
    const { page } = await visit(pageOf(report));
    const first = (await page.locator('main > *').first().textContent()) ?? '';
    assert.match(first, /incomplete: 1 diagnostic.*parse-error src\/broken\.ts: Unexpected token \}/);
  });

  it('is complete without script, and fits 360 pixels in both color schemes', async () => {
    const url = pageOf(reportOf(findings(2)));
    for (const colorScheme of ['light', 'dark'] as const) {
      const options = { javaScriptEnabled: false, colorScheme, viewport: { width: 360, height: 740 } };
      const { page, faults } = await visit(url, options);
      assert.equal(await page.locator('.file li:visible').count(), 2);
      assert.ok(await page.locator('form').isHidden());
      assert.deepEqual(faults, []);
    }
    const { page } = await visit(url, { viewport: { width: 360, height: 740 } });
    await assertFits(page);
  });

  it('begins with the verdict, the counts and the findings, however many files were scanned', async () => {
    const of = (count: number): string =>
      pageOf(
        reportOf(findings(count), (report) => {
          ungated(report);
          report.scan.include = Array.from({ length: 651 }, (_, index) => `lib/some/folder/file${index}.js`);
        }),
      );
    const [many, none] = [of(2500), of(0)];
    for (const [width, height] of [
      [1280, 900],
      [360, 740],
    ] as const) {
      const { page } = await visit(many, { viewport: { width, height } });
      const top = (await page.locator('.file li').first().boundingBox())?.y ?? Infinity;
      assert.ok(top < height * 0.7, `${top} px`);
      assert.equal(await page.textContent('.verdict'), '2,500 findings');
      assert.equal(await page.getByText('file650.js').isVisible(), false);
      await assertFits(page);
    }
    const { page } = await visit(none);
    assert.equal(await page.textContent('.verdict'), 'No findings');
    assert.equal(await page.locator('.good').count(), 1);
  });

  it('has new, unchanged and fixed findings after a comparison', async () => {
    const [base, current, to] = ['base.json', 'current.json', 'compared.html'].map((name) => join(folder, name));
    for (const [from, path = ''] of [base, current].entries())
      writeFileSync(path, JSON.stringify(reportOf(findings(from + 2).slice(from), ungated)));
    execFileSync(TOOLLINT, ['compare', base ?? '', current ?? '', '--format', `html=${to}`, '--exit-zero']);
    const { page } = await visit(pathToFileURL(to ?? '').href);
    for (const state of ['fixed', 'new', 'unchanged'])
      assert.equal(await page.locator(`.file li[data-state=${state}]`).count(), 1, state);
  });

  it('prints every finding, and never hides the focus under the filters', async () => {
    const { page } = await visit(pageOf(reportOf(findings(200))));
    await page.focus('.file:last-of-type a');
    for (let presses = 0; presses < 40; presses += 1) {
      await page.keyboard.press('Shift+Tab');
      const [focus, form] = await page.evaluate<[number, number]>(
        `[document.activeElement, document.querySelector('form')].map((one) => one.getBoundingClientRect().bottom)`,
      );
      assert.ok(focus > form, `${focus} px, under the filters at ${form} px`);
    }
    await page.emulateMedia({ media: 'print' });
    assert.equal(await page.locator('.file li:visible').count(), 200);
    assert.ok(await page.locator('form').isHidden());
  });

  it('opens 25,000 findings with less than two seconds of work', async () => {
    const url = pageOf(reportOf(findings(25_000)));
    assert.ok(readFileSync(new URL(url), 'utf8').length < 10_000_000);
    const { page } = await visit('about:blank');
    const session = await page.context().newCDPSession(page);
    await session.send('Performance.enable', { timeDomain: 'threadTicks' });
    await page.goto(url, { timeout: 120_000 });
    const { metrics } = await session.send('Performance.getMetrics');
    const seconds = metrics.find(({ name }) => name === 'TaskDuration')?.value ?? NaN;
    // With `threadTicks`, the duration is CPU time. It is about one second on an idle machine.
    assert.ok(seconds < 6, `${seconds} s`);
  });
});

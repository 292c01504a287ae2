// The filters of the HTML report: its script runs here with the parts of a document that it uses.
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { runInNewContext } from 'node:vm';
import { convert } from '../../../lib/toollint/toollint.ts';
import { sampleFinding, sampleReport } from '../support/samples.ts';

const SEVERITIES = { severity: 'error warning info' };

it('the HTML report shows and counts the findings that all filters choose', async () => {
  const compared = [
    { finding: sampleFinding({ path: 'a/x.ts', ruleId: 'one', severity: 'error', message: 'Text' }), state: 'new' },
    { finding: sampleFinding({ path: 'a/x.ts', ruleId: 'two', severity: 'info' }), state: 'unchanged' },
    { finding: sampleFinding({ path: 'b/a/y.ts', ruleId: 'one' }), state: 'new' },
  ] as const;
  let page = '';
  const report = sampleReport(compared.map(({ finding }) => finding));
  await convert(report, 'html', async (part) => void (page += part), { compared });
  const files = Array.from(page.matchAll(/class="file" data-path="(.*?)"(.*?)<\/ul>/gsu), ([, path, own = '']) => {
    const items = own.matchAll(/<li class="(.*?)" data-rule="(.*?)" data-state="(.*?)">(.*?)(?=<li|$)/gu);
    const rows = Array.from(items, ([, severity, rule, state, html = '']) => ({
      ...{ hidden: false, classList: [severity], dataset: { rule, state }, textContent: html.replace(/<.*?>/gu, '') },
    }));
    return { hidden: false, open: true, dataset: { path }, querySelectorAll: () => rows };
  });
  const allRows = files.flatMap((file) => file.querySelectorAll());
  let choices: Readonly<Record<string, string>> = SEVERITIES;
  const listeners: Record<string, () => void> = {};
  const addEventListener = (type: string, listener: () => void) => (listeners[type] = listener);
  const selectOf = () => {
    const values: string[] = [];
    const append = (...options: { value: string }[]) => values.push(...options.map(({ value }) => value));
    return { values, append, parentNode: { hidden: true } };
  };
  const elements = { rule: selectOf(), folder: selectOf(), state: selectOf() };
  const output = { textContent: '' };
  const form = { hidden: true, elements, addEventListener, querySelector: () => ({}) };
  runInNewContext(/<script>(.*)<\/script>/su.exec(page)?.[1] ?? '', {
    document: {
      querySelector: (name: string) => ({ form, output })[name] ?? files[0],
      querySelectorAll: (name: string) => (name === '.file' ? files : allRows),
      getElementById: () => ({ addEventListener }),
    },
    FormData: function () {
      return { get: (name: string) => choices[name], getAll: (name: string) => choices[name]?.split(' ') };
    },
    Option: function (value: string) {
      return { value };
    },
    ...{ matchMedia: () => ({}), setTimeout: (work: () => void) => work(), clearTimeout: () => undefined },
  });
  const offered = Object.values(elements).map(({ values, parentNode }) => [parentNode.hidden, ...values].join(' '));
  assert.deepEqual([form.hidden, ...offered], [false, 'false one two', 'false a/ b/a/', 'false new unchanged']);
  for (const [change, rows, shown] of [
    [{ severity: 'error info' }, '110', '10'],
    [{ rule: 'one' }, '101', '11'],
    [{ folder: 'a/' }, '110', '10'],
    [{ state: 'unchanged' }, '010', '10'],
    [{ text: 'TEXT' }, '100', '10'],
    [{ text: 'B/A' }, '001', '01'],
    [{ rule: 'one', state: 'unchanged' }, '000', '00'],
    [{ rule: 'two' }, '010', '10'],
  ] as const) {
    choices = { text: '', ...SEVERITIES, ...change };
    listeners['input']?.();
    const visible = (all: readonly { hidden: boolean }[]) => all.map(({ hidden }) => Number(!hidden)).join('');
    const count = `${rows.replaceAll('0', '').length} of 3 findings`;
    assert.deepEqual([visible(allRows), visible(files), output.textContent], [rows, shown, count]);
  }
  listeners['click']?.();
  assert.deepEqual([files[0]?.open, files[1]?.open], [false, true], 'only the visible files');
});

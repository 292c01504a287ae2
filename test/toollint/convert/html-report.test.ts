// The filters of the HTML report, whose script runs with the document of jsdom.
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { JSDOM } from 'jsdom';
import { convert } from '../../../lib/toollint/toollint.ts';
import { sampleFinding, sampleReport } from '../support/samples.ts';

it('the HTML report shows and counts the findings that all filters choose', async (t) => {
  const compared = [
    { finding: sampleFinding({ path: 'a/x.ts', ruleId: 'one', severity: 'error', message: 'Text' }), state: 'new' },
    { finding: sampleFinding({ path: 'a/x.ts', ruleId: 'two', severity: 'info' }), state: 'unchanged' },
    { finding: sampleFinding({ path: 'b/a/y.ts', ruleId: 'one' }), state: 'new' },
  ] as const;
  let page = '';
  const report = sampleReport(compared.map(({ finding }) => finding));
  await convert(report, 'html', async (part) => void (page += part), { compared });
  const { window } = new JSDOM(page, {
    runScripts: 'dangerously',
    // jsdom has no layout, so it knows no widths.
    beforeParse: (own) => void Object.assign(own, { matchMedia: () => ({ matches: true }) }),
  });
  const { document } = window;
  const form = document.querySelector('form') ?? assert.fail();
  const select = (name: string) => form.querySelector<HTMLSelectElement>(`[name=${name}]`) ?? assert.fail(name);
  const offered = ['rule', 'folder', 'state'].map((name) => {
    const { options, parentElement } = select(name);
    return [parentElement?.hidden, ...Array.from(options, ({ value }) => value)].join(' ');
  });
  assert.deepEqual([form.hidden, ...offered], [false, 'false  one two', 'false  a/ b/a/', 'false  new unchanged']);
  const visible = (selector: string) =>
    Array.from(document.querySelectorAll<HTMLElement>(selector), ({ hidden }) => Number(!hidden)).join('');
  for (const [change, rows, files] of [
    [{ severity: ['error', 'info'] }, '110', '10'],
    [{ rule: 'one' }, '101', '11'],
    [{ folder: 'a/' }, '110', '10'],
    [{ state: 'unchanged' }, '010', '10'],
    [{ text: 'TEXT' }, '100', '10'],
    [{ text: 'B/A' }, '001', '01'],
    [{ rule: 'one', state: 'unchanged' }, '000', '00'],
    [{ rule: 'two' }, '010', '10'],
  ] as const) {
    form.reset();
    for (const [name, value] of Object.entries<string | readonly string[]>(change))
      for (const field of form.querySelectorAll<HTMLInputElement>(`[name=${name}]`))
        if (typeof value === 'string') field.value = value;
        else field.checked = value.includes(field.value);
    form.dispatchEvent(new window.Event('input', { bubbles: true }));
    const wanted = `${rows} ${files} ${rows.replaceAll('0', '').length} of 3 findings`;
    const shown = () => `${visible('.file li')} ${visible('.file')} ${document.querySelector('output')?.textContent}`;
    await t.waitFor(() => assert.equal(shown(), wanted), { timeout: 20_000 });
  }
  document.getElementById('toggle')?.click();
  const isOpen = Array.from(document.querySelectorAll<HTMLDetailsElement>('.file'), ({ open }) => open);
  assert.deepEqual(isOpen, [false, true], 'only the visible files');
});

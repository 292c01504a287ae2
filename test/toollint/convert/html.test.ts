import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { convert, type ConvertOptions, type Report } from '../../../lib/toollint/toollint.ts';
import { sampleFinding, sampleReport } from '../support/samples.ts';

async function htmlOf(report: Report, options: ConvertOptions = {}): Promise<string> {
  let text = '';
  await convert(report, 'html', async (part) => void (text += await Promise.resolve(part)), options);
  return text;
}

describe('the HTML report', () => {
  it('escapes every text of the document, and links to http and https only', async () => {
    const hostile = '"><script>alert(1)</script>\u001b[31m';
    const finding = {
      ...sampleFinding({ ruleId: hostile, message: hostile, path: `${hostile}.ts` }),
      docsUrl: 'javascript:alert(1)',
    };
    const html = await htmlOf(sampleReport([{ ...finding, codeSnippet: hostile, suggestion: hostile }]));
    assert.equal(html.split('<script>').length, 2, 'the only script is its own');
    assert.doesNotMatch(html, /href="javascript/);
    assert.ok(!html.includes('\u001b'));
    assert.ok(html.includes('&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;'));
  });

  it('marks the flagged text in its snippet, and links a finding to its line', async () => {
    const finding = {
      ...sampleFinding({ path: 'src/b c.ts', line: 3 }),
      codeSnippet: 'if (a == b) {',
      flaggedText: '==',
    };
    const html = await htmlOf(sampleReport([finding]), { links: 'https://h/' });
    assert.ok(html.includes('<pre>if (a <mark>==</mark> b) {</pre>'));
    assert.ok(html.includes('href="https://h/src/b%20c.ts#L3"'));
  });
});

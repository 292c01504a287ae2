// The status page and the runbook that it links to. Both are static: the page itself requests `metrics` and
// `health/ready`. The page is one file that loads nothing: its modules become its one script.
import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';

const HEADERS = ['X-Content-Type-Options', 'nosniff', 'Cache-Control', 'no-store', 'Referrer-Policy', 'no-referrer'];

/** Returns the answers, by path. */
export function statusPages() {
  const modules = ['status-figures.js', 'status-rules.js', 'status-view.js'].map(read);
  const script = modules.join('').replace(/^import \{[^}]*\} from .*;\n/gm, '');
  const page = read('status-page.html').replace('</script>', () => `${script}</script>`);
  const runbook = readFileSync(new URL('../../deploy/RUNBOOK.md', import.meta.url), 'utf8');
  return { '/': answer(page), '/runbook': answer(runbookPage(runbook)) };
}

const read = (name: string): string => readFileSync(new URL(name, import.meta.url), 'utf8');

const answer = (html: string) => ({
  status: 200,
  contentType: 'text/html; charset=utf-8',
  body: html,
  headers: ['Content-Security-Policy', policyOf(html), ...HEADERS],
});

/** Returns the Markdown text with an anchor at each heading. The anchors have the same names as on GitHub. */
function runbookPage(markdown: string): string {
  const escaped = markdown.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
  const text = escaped.replace(/^#+ (.*)$/gm, (line, title: string) => {
    const anchor = title
      .toLowerCase()
      .replaceAll(/[^\w -]/g, '')
      .replaceAll(' ', '-');
    return `<b id="${anchor}">${line}</b>`;
  });
  return (
    '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">' +
    '<meta name="color-scheme" content="light dark"><title>Runbook</title>' +
    '<style>pre{white-space:pre-wrap;max-width:84em;margin:2em auto;padding:0 1em;line-height:1.5}</style>' +
    `<pre>${text}</pre>`
  );
}

/** Returns a Content-Security-Policy that allows only the page's own inline script and style. */
function policyOf(html: string): string {
  const hashOf = (tag: string): string => {
    const text = new RegExp(`<${tag}[^>]*>(.*?)</${tag}>`, 's').exec(html)?.[1];
    return text === undefined ? "'none'" : `'sha256-${hash('sha256', text, 'base64')}'`;
  };
  return (
    `default-src 'none'; connect-src 'self'; script-src ${hashOf('script')}; style-src ${hashOf('style')}; ` +
    "img-src data:; frame-ancestors 'none'; base-uri 'none'"
  );
}

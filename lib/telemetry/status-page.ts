// The status page and the runbook that it links to, as answers of a process's own address. The page asks for `metrics`
// and `health/ready` itself, so nothing here depends on the state of the process.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';

/** An answer that never changes. */
interface Page {
  readonly status: number;
  readonly contentType: string;
  readonly body: string;
  readonly headers: readonly string[];
}

const HEADERS = ['X-Content-Type-Options', 'nosniff', 'Cache-Control', 'no-store', 'Referrer-Policy', 'no-referrer'];

/** Path -> answer. */
export function statusPages(): Readonly<Record<string, Page>> {
  const html = readFileSync(new URL('status-page.html', import.meta.url), 'utf8');
  const runbook = readFileSync(new URL('../../deploy/RUNBOOK.md', import.meta.url), 'utf8');
  return {
    '/': page('text/html', html, policyOf(html)),
    '/runbook': page('text/plain', runbook, "default-src 'none'; frame-ancestors 'none'; base-uri 'none'"),
  };
}

const page = (mediaType: string, body: string, policy: string): Page => ({
  status: 200,
  contentType: `${mediaType}; charset=utf-8`,
  body,
  headers: ['Content-Security-Policy', policy, ...HEADERS],
});

/** Only the inline script and style of this very file run. */
function policyOf(html: string): string {
  const hashOf = (tag: string): string => {
    const text = new RegExp(`<${tag}>(.*?)</${tag}>`, 's').exec(html)?.[1] ?? '';
    return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
  };
  return (
    `default-src 'none'; connect-src 'self'; script-src ${hashOf('script')}; style-src ${hashOf('style')}; ` +
    "img-src data:; frame-ancestors 'none'; base-uri 'none'"
  );
}

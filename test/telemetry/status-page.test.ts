import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { before, describe, it } from 'node:test';
import { createProcessEndpoints } from '../../lib/http/process-endpoints.ts';
import { problem } from '../../lib/ingest/errors.ts';
import { statusPages } from '../../lib/telemetry/status-page.ts';
import { atEnd } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';

const RUNBOOK = readFileSync(new URL('../../deploy/RUNBOOK.md', import.meta.url), 'utf8');
let url: string;

before(async () => {
  const state = {
    draining: () => false,
    unready: () => undefined,
    unavailable: () => new Map(),
    metrics: () => Promise.resolve({ status: 200, contentType: 'text/plain', body: '' }),
  };
  const endpoints = createProcessEndpoints(state, problem, SYSTEM, statusPages());
  const { port } = await endpoints.listen({ host: '127.0.0.1', port: 0 });
  atEnd(() => endpoints.close());
  url = `http://127.0.0.1:${port}`;
});

describe('the status page', () => {
  it('is one file of at most 48,000 bytes that loads nothing', async () => {
    const response = await fetch(url);
    const body = await response.text();
    assert.equal(response.status, 200);
    assert.equal(response.headers.get('content-type'), 'text/html; charset=utf-8');
    assert.ok(Buffer.byteLength(body) <= 48_000, `${Buffer.byteLength(body)} bytes`);
    assert.doesNotMatch(body, /<(script|img|iframe|link|object)[^>]* (src|href)="(?!data:)/);
    assert.doesNotMatch(body, /innerHTML|insertAdjacentHTML|document\.write|eval\(| on\w+="| style="/);
  });

  it('allows only its own script and style, and connections to its own process', async () => {
    const response = await fetch(url);
    const { headers } = response;
    const body = await response.text();
    const hash = (tag: string): string => {
      const text = new RegExp(`<${tag}[^>]*>(.*?)</${tag}>`, 's').exec(body)?.[1] ?? '';
      return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
    };
    assert.equal(
      headers.get('content-security-policy'),
      `default-src 'none'; connect-src 'self'; script-src ${hash('script')}; style-src ${hash('style')}; ` +
        "img-src data:; frame-ancestors 'none'; base-uri 'none'",
    );
    const others = ['x-content-type-options', 'cache-control', 'referrer-policy'].map((name) => headers.get(name));
    assert.deepEqual(others, ['nosniff', 'no-store', 'no-referrer']);
  });

  it('links to existing chapters of the runbook on the same address', async () => {
    const body = await (await fetch(url)).text();
    const alerts = [...new Set(Array.from(body.matchAll(/'(Ingest[A-Z]\w+)'/g), ([, name = '']) => name))];
    assert.ok(alerts.length >= 10, alerts.join());
    for (const name of alerts) assert.ok(RUNBOOK.includes(`\n### ${name}\n`), name);
    const response = await fetch(`${url}/runbook`);
    assert.equal(response.headers.get('content-type'), 'text/html; charset=utf-8');
    assert.equal(response.headers.get('x-content-type-options'), 'nosniff');
    assert.match(response.headers.get('content-security-policy') ?? '', /^default-src 'none'; .*script-src 'none'/);
    const runbook = await response.text();
    for (const name of alerts) assert.ok(runbook.includes(`<b id="${name.toLowerCase()}">### ${name}</b>`), name);
  });
});

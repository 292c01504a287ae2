// Opens pages in Debian's Chromium with playwright-core.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { chromium, type Browser, type BrowserContextOptions, type Page } from 'playwright-core';
import { atEnd } from '../support/scope.ts';

const ENSURE = join(import.meta.dirname, '../../bin/ensure-command');
export const PATIENCE = { timeout: 60_000 } as const;

let browser: Promise<Browser> | undefined;

async function launch(): Promise<Browser> {
  const executablePath = execFileSync(ENSURE, ['chromium', 'chromium'], { encoding: 'utf8' }).trim();
  const launched = await chromium.launch({ executablePath, args: ['--no-sandbox'], ...PATIENCE });
  atEnd(() => launched.close());
  return launched;
}

export interface Visit {
  readonly page: Page;
  /** Requests to other origins, errors on the console, uncaught exceptions, and dialogs. */
  readonly faults: string[];
}

export async function visit(url: string, options: BrowserContextOptions = {}): Promise<Visit> {
  browser ??= launch();
  const page = await (await browser).newPage({ viewport: { width: 1280, height: 900 }, ...options });
  page.setDefaultTimeout(PATIENCE.timeout);
  const faults: string[] = [];
  page.on('request', (request) => {
    const to = request.url();
    if (!to.startsWith('data:') && new URL(to).origin !== new URL(url).origin) faults.push(`request to ${to}`);
  });
  page.on('console', (message) => {
    // Chromium itself logs an error for each poll that fails or returns 503.
    if (message.type() === 'error' && !/net::ERR_|status of 503/.test(message.text())) faults.push(message.text());
  });
  page.on('pageerror', (error) => faults.push(error.message));
  page.on('dialog', (dialog) => faults.push(`dialog ${dialog.message()}`));
  await page.goto(url, PATIENCE);
  return { page, faults };
}

export async function assertFits(page: Page): Promise<void> {
  const [wide, window] = await page.evaluate<[number, number]>(
    '[document.documentElement.scrollWidth, document.documentElement.clientWidth]',
  );
  assert.ok(wide <= window, `${wide} px in a window of ${window}`);
}

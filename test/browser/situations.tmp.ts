import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { SITUATIONS, pageMetrics } from '../telemetry/page-metrics.ts';
import { visit } from './browser.ts';
import { ServedPage } from './served-page.ts';
const PICTURES = join(import.meta.dirname, '../../.ingest/pictures');
mkdirSync(PICTURES, { recursive: true });
describe('x', () => {
  for (const [name, situation] of Object.entries(SITUATIONS))
    it(name, async () => {
      const served = await ServedPage.start();
      const started = performance.now() - 60_000;
      served.metrics = () => pageMetrics((performance.now() - started) / 1000, situation);
      served.unready = situation.unready;
      const { page, faults } = await visit(served.url);
      await new Promise((r) => setTimeout(r, 13000));
      await page.screenshot({ path: join(PICTURES, `s-${name}.png`), fullPage: true });
      console.log(name, await page.textContent('#state'), faults);
      await page.close();
    });
});

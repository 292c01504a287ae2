import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { describe, it } from 'node:test';
import { EXIT } from '../../lib/process/program.ts';
import { temporaryFolder } from '../support/scope.ts';
import { alertRules, anchorsOf, boardPanels, deployFile } from './deploy-files.ts';

const text = deployFile('RUNBOOK.md');
const chapters = new Map(
  text
    .split(/^#{2,3} /m)
    .slice(1)
    .map((chapter) => [chapter.slice(0, chapter.indexOf('\n')), chapter] as const),
);
const anchors = anchorsOf(text);

describe('the runbook', () => {
  it('has a chapter for each alert, from meaning to resolution', () => {
    const alerts = alertRules.flatMap(({ alert, annotations }) => (alert ? [{ alert, annotations }] : []));
    assert.ok(alerts.length > 10);
    for (const { alert, annotations } of alerts) {
      const url = annotations?.['runbook_url'] ?? '';
      assert.ok(url.endsWith(`#${alert.toLowerCase()}`), url);
      const chapter = chapters.get(alert)?.toLowerCase() ?? '';
      for (const part of ['meaning', 'impact', 'diagnosis', 'mitigation', 'resolved when'])
        assert.ok(chapter.includes(`**${part}`), `${alert}: ${part}`);
    }
  });

  it('has a chapter for each panel of the board, which has a limit', () => {
    const panels = boardPanels;
    assert.ok(panels.length > 20);
    for (const { title, links = [], fieldConfig } of panels) {
      assert.ok((fieldConfig?.defaults.thresholds?.steps.length ?? 0) > 0, title);
      assert.equal(links.length, 1, title);
      const [, anchor = ''] = /^\$\{runbook\}#(.+)$/.exec(links[0]?.url ?? '') ?? [];
      assert.ok(anchors.includes(anchor), `${title}: ${links[0]?.url}`);
    }
  });

  it('has a chapter for each exit code', () => {
    for (const code of Object.values(EXIT)) assert.ok(chapters.has(`Exit ${code}`), String(code));
  });

  it('has commands that make an authority, certificates, and a list that revokes one of them', () => {
    const chapter = chapters.get('Certificates and revocation lists') ?? '';
    const blocks = [...chapter.matchAll(/^```\n([^]*?)^```$/gm)].map(([, block = '']) => block);
    assert.equal(blocks.length, 2);
    const { stdout, stderr } = spawnSync('sh', ['-c', blocks.join('')], { cwd: temporaryFolder(), encoding: 'utf8' });
    assert.match(`${stdout}${stderr}`, /certificate revoked/);
  });
});

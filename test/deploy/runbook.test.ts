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

/** The panels of each unit, with the limit from which a value has another color. */
const PANELS: Readonly<Record<string, readonly string[]>> = {
  reqps: ['Accepted events', 'Landed events'],
  'reqps red 1': ['Refusals by code', 'Shed events'],
  's red 0.2': ['Latency of POST /events'],
  'short red 1000': ['Events in flight'],
  'short red 10000': ['Connections and handshakes'],
  'short green 1': ['Queue available', 'Consumers', 'Consumers ready, warehouse reached', 'Parts of the queue'],
  bytes: ['Memory'],
  'h green 12': ['Hours until the memory is full'],
  short: ['Events in the queue', 'Reloads', 'Versions'],
  's red 300': ['Age of the oldest event that has not landed'],
  's red 60': ['From acceptance to the row'],
  'short red 1': ['Quarantined'],
  'ops red 1': ['Failed attempts'],
  'percentunit red 0.9': ['CPU'],
  's red 0.1': ['Event loop lag, p99'],
  's green 1209600': ['TLS files expire in'],
  'percentunit green 0.01': ['Error budget left (28 days)'],
  'short red 14.4': ['How fast the error budget burns'],
  'percentunit red 0.01': ['Share of the time that processes stood still'],
};

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

  it('describes panels whose units, limits and legends are those of their queries', () => {
    for (const { title, datasource, fieldConfig, targets = [] } of boardPanels) {
      const { unit, thresholds } = fieldConfig?.defaults ?? {};
      const [first, ...more] = thresholds?.steps ?? [];
      const limits = more.map(({ color, value }) => ` ${color} ${value}`).join('');
      assert.ok(PANELS[`${unit}${limits}`]?.includes(title), title);
      assert.deepEqual(first, { color: limits.startsWith(' green') ? 'red' : 'green', value: null }, title);
      assert.equal(datasource?.uid, '${datasource}', title);
      for (const { expr, legendFormat } of targets) {
        const [, percent] = /^p(\d+)/.exec(legendFormat) ?? [];
        assert.equal(/histogram_quantile\(([\d.]+)/.exec(expr)?.[1], percent && String(Number(percent) / 100), title);
        const [, part] = /per (hour|second)/.exec(legendFormat) ?? [];
        assert.equal(expr.includes('[1h]'), part === 'hour' || /last hour/.test(legendFormat), title);
        for (const [, label] of legendFormat.matchAll(/\{\{(\w+)\}\}/g))
          assert.ok(!/\bby \(/.test(expr) || new RegExp(`by \\([^)]*\\b${label}\\b`).test(expr), title);
        for (const [, selector] of expr.matchAll(/\{([^{}]*)\}/g))
          assert.match(selector ?? '', /^job=~"\$job", instance=~"\$instance"/, title);
        const objective = expr.includes('events_slow') ? 'latency' : 'availability';
        assert.ok(!expr.includes('ingest:') || expr.includes(`(ingest:${objective}:objective)`), title);
      }
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

// syslog-ng with the setting of the producers' page. The suite does not run this file, because it installs syslog-ng.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { appendFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, it } from 'node:test';
import { PATIENT, TestGateway, TestProcess } from '../support/gateway.ts';
import { Pki } from '../support/pki.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually, temporaryFolder } from '../support/scope.ts';
import { ADDRESS, snippet, SnippetRunner } from '../support/snippets.ts';
import { tool } from '../support/tool.ts';

const linesOf = (stem: string, count: number): string[] =>
  Array.from({ length: count }, (_, at) =>
    JSON.stringify({ id: `shop-${stem}-${at}`, type: 'log.line', at, text: 'é"\\' }),
  );

describe("the syslog-ng setting of the producers' page", () => {
  let syslogNg: string;
  before(() => {
    syslogNg = tool('syslog-ng', 'syslog-ng-core');
    const libraries = execFileSync(syslogNg, ['--version'], { encoding: 'utf8' });
    // ensure-command fails after the installation, because the package contains no command of this name.
    if (!/Available-Modules: .*\bhttp\b/.test(libraries))
      assert.throws(() => tool('syslog-ng-mod-http', 'syslog-ng-mod-http'));
  });

  /** Starts syslog-ng, which reads the lines from a file. `folder` has the certificates. */
  function collects(folder: string, url: string, lines: readonly string[]): TestProcess {
    writeFileSync(join(folder, 'events.ndjson'), `${lines.join('\n')}\n`);
    const setting = snippet('conf syslog-ng')
      .replaceAll(ADDRESS, url)
      .replaceAll(/\/etc\/shop|\/var\/log\/shop/g, folder);
    const shown = execFileSync(syslogNg, ['--version'], { encoding: 'utf8' });
    const version = /^syslog-ng \d+ \((\d+\.\d+)/.exec(shown)?.[1];
    writeFileSync(join(folder, 'syslog-ng.conf'), `@version: ${version}\n${setting}`);
    const files = '--cfgfile syslog-ng.conf --persist-file persist --pidfile pid --control control'.split(' ');
    return new TestProcess(syslogNg, ['--foreground', '--stderr', '--no-caps', ...files], {}, { cwd: folder });
  }

  it('sends each line as an event, although a quota delays most of them', async () => {
    const [redis, pki] = await Promise.all([TestRedis.start(), Pki.create()]);
    const gateway = await TestGateway.start(redis, pki, { ...PATIENT, INGEST_PRODUCER_RATE_MAX: '20' });
    const { cert, key } = await pki.producer('shop');
    const folder = temporaryFolder();
    const pem = { 'ca.pem': pki.authority.certificate, 'producer.pem': cert, 'producer-key.pem': key };
    for (const [name, text] of Object.entries(pem)) writeFileSync(join(folder, name), text);
    const lines = linesOf('quota', 100);
    const collector = collects(folder, `https://127.0.0.1:${gateway.port}`, lines);
    const bodies = async (): Promise<string[]> => (await redis.entries()).map(({ fields }) => fields['body'] ?? '');
    await eventually('all lines are events', async () => (await bodies()).length === lines.length, 60_000);
    assert.deepEqual((await bodies()).toSorted(), lines.toSorted());
    assert.ok((await gateway.metric('ingest_errors_total', { code: 'PRODUCER_RATE_LIMITED' })) > 0, collector.output);
  });

  it('sends a line again for as long as the answer is retryable, drops a refused line, and loses a shed one', async () => {
    const { gateway, folder } = await SnippetRunner.start();
    // More tries than the three after which syslog-ng drops a line by default.
    gateway.next(...Array<'unavailable'>(100).fill('unavailable'), 'internal', 'rateLimited', 'shed', 409);
    const lines = linesOf('again', 40);
    const collector = collects(folder, gateway.url, lines);
    await eventually('each line has its last answer', () => gateway.requests === lines.length + 102, 60_000);
    await eventually('all accepted', () => gateway.events.length === lines.length - 2, 10_000);
    appendFileSync(join(folder, 'events.ndjson'), '{"no":"event"}\n');
    await eventually('drops are reported', () => collector.output.match(/dropped/g)?.length === 2, 10_000);
    assert.equal(gateway.requests, lines.length + 103);
    assert.equal(collector.child.exitCode, null);
  });
});

import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { gzipSync } from 'node:zlib';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { compare, memorySource, type Report } from '../../../lib/toollint/toollint.ts';
import { noFilesReport, sampleFinding, sampleReport } from '../support/samples.ts';
import { counts, project, toollint, writeJson } from '../support/verbs.ts';

const source = (report: unknown) => memorySource(JSON.stringify(report), 'sample');

const a = sampleFinding({ text: 'a' });
const b = sampleFinding({ text: 'b', line: 7 });
const c = sampleFinding({ text: 'c', line: 9, path: 'src/c.ts', severity: 'error' });

describe('comparing reports', () => {
  it('stays linear with 100,000 equal findings', { tags: ['long'] }, async () => {
    const many = (count: number, shift: number) =>
      sampleReport(Array.from({ length: count }, (_, index) => sampleFinding({ line: index + 1 + shift })));
    const costOf = async (count: number) => {
      const before = process.cpuUsage();
      const { report } = await compare(source(many(count, 0)), source(many(count + 1, count / 2)));
      assert.deepEqual(counts(report), [1, count, 0]);
      const { user, system } = process.cpuUsage(before);
      return user + system;
    };
    await costOf(1000);
    // Ten times as many findings need about ten times the work. Comparing all pairs would need a hundred times.
    const [small, large] = [await costOf(10_000), await costOf(100_000)];
    assert.ok(large < small * 30, `${small} ${large}`);
  });
});

describe('a baseline', () => {
  it('is refused if it is doubtful, and never changed', async (t) => {
    const folder = await project(t, {});
    const current = await writeJson(folder, 'current.json', sampleReport([a]));
    const contents: Record<string, string | Uint8Array> = {
      quiet: JSON.stringify(sampleReport([c], (report) => (report.selection.quiet = true))),
      delta: JSON.stringify(
        sampleReport([a], (report) => (report.selection.baseline = { newIssues: 1, unchanged: 0, fixed: 0 })),
      ),
      'no-files': JSON.stringify(noFilesReport()),
      'other-tool': JSON.stringify(sampleReport([a], (report) => (report.tool.name = 'other'))),
      'other-version': JSON.stringify(sampleReport([a])).replaceAll('toolLint/v1', 'toolLint/v2'),
      empty: '',
      markers: `<<<<<<< HEAD\n${JSON.stringify(sampleReport([a]))}\n=======\n>>>>>>> other\n`,
      array: '[]',
      object: '{}',
      inconsistent: JSON.stringify(sampleReport([a])).replace('"totalIssues":1', '"totalIssues":2'),
      gzip: gzipSync(JSON.stringify(sampleReport([a]))),
    };
    for (const [name, content] of Object.entries(contents)) {
      const path = join(folder, `${name}.json`);
      await writeFile(path, content);
      const { code, stdout, stderr } = await toollint(['compare', path, current]);
      assert.deepEqual([code, stdout], [2, ''], name);
      assert.match(stderr, /^toollint: .+\n$/u, name);
      assert.deepEqual(await readFile(path), Buffer.from(content), name);
    }
    for (const path of [folder, join(folder, 'missing.json')]) {
      assert.deepEqual((await toollint(['compare', path, current])).code, 2);
    }
  });

  it('that lists errors only is compared with errors only', async (t) => {
    const folder = await project(t, {});
    const quiet = sampleReport([c], (report) => (report.selection.quiet = true));
    const base = await writeJson(folder, 'quiet-base.json', quiet);
    const current = await writeJson(folder, 'full.json', sampleReport([a, b, c]));
    assert.equal((await toollint(['compare', base, current])).code, 2);
    const { code, stdout } = await toollint(['compare', '--quiet', base, current]);
    assert.equal(code, 0);
    const selection = { quiet: true, baseline: { newIssues: 0, unchanged: 1, fixed: 0 } };
    assert.deepEqual((JSON.parse(stdout) as Report).selection, selection);
  });
});

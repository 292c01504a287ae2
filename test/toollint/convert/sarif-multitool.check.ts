// Checks SARIF with Microsoft's own validator, which this file installs, and GitHub's rules. `make sarif-check` runs
// it.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { arch } from 'node:os';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { configText, project, toollint, writeJson } from '../support/verbs.ts';
import { projectFinding, sampleFinding, sampleReport } from '../support/samples.ts';

const PREFIX = new URL('../../../node_modules/.cache/multitool', import.meta.url).pathname;
const SYSTEM = process.platform === 'darwin' ? 'darwin' : 'linux';
const TOOL = join(PREFIX, `node_modules/@microsoft/sarif-multitool-${SYSTEM}/Sarif.Multitool`);

const OPTIONS = ['--silent', '--no-audit', '--no-fund', '--no-save', '--no-package-lock', '--ignore-scripts'];
execFileSync('npm', ['install', ...OPTIONS, '--prefix', PREFIX, '@microsoft/sarif-multitool@5.7.0']);
chmodSync(TOOL, 0o755);

function complaints(cwd: string, name: string): string[] {
  const out = join(cwd, `${name}.out`);
  const rules = ['--rule-kind', 'Sarif;Ghas', '--level', 'Error;Warning', '--kind', 'Fail'];
  try {
    execFileSync(TOOL, ['validate', join(cwd, name), ...rules, '--output', out, '--log', 'ForceOverwrite'], {
      stdio: 'pipe',
    });
  } catch (cause) {
    // The validator also exits with 1 if it found errors.
    if (!(cause instanceof Error && 'status' in cause && cause.status === 1)) throw cause;
  }
  const log = JSON.parse(readFileSync(out, 'utf8')) as {
    runs: { results: { ruleId: string; level?: string; locations?: unknown }[] }[];
  };
  return log.runs.flatMap(({ results }) => results.map(({ ruleId, level }) => `${level ?? 'warning'} ${ruleId}`));
}

describe(`Microsoft's sarif-multitool on ${SYSTEM} ${arch()}`, () => {
  const scanned = async (t: TestContext) => {
    const cwd = await project(t, {
      'package.json': '{}',
      'eslint.config.mjs': configText(`{ 'no-var': 2, 'no-console': 1, 'no-undef': 2, 'eqeqeq': 1 }`),
      'a.js': 'var a;\nif (a == 1) console.log(b);\n',
      'broken.js': 'let = ;\n',
    });
    await toollint(['scan', '--format', 'sarif=scan.sarif', '--silent'], { cwd });
    return cwd;
  };

  it('has no error and no warning for a scan', async (t) => {
    assert.deepEqual(complaints(await scanned(t), 'scan.sarif'), []);
  });

  it('has none for findings of the project and findings without a place', async (t) => {
    const cwd = await project(t, {});
    const bare = sampleFinding({ line: undefined, column: undefined });
    await writeJson(cwd, 'r.json', sampleReport([projectFinding(), bare, sampleFinding()]));
    await toollint(['convert', 'r.json', '--to', 'sarif=project.sarif'], { cwd });
    assert.deepEqual(complaints(cwd, 'project.sarif'), []);
  });

  it('has an error for a result without a location, so it checks what GitHub checks', async (t) => {
    const cwd = await scanned(t);
    const log = JSON.parse(readFileSync(join(cwd, 'scan.sarif'), 'utf8')) as {
      runs: { results: { locations?: unknown }[] }[];
    };
    delete log.runs[0]?.results[0]?.locations;
    writeFileSync(join(cwd, 'bad.sarif'), JSON.stringify(log));
    assert.match(complaints(cwd, 'bad.sarif').join(), /error GH/u);
  });
});

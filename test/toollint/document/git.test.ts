import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { committed, git, repository, toollint } from '../support/verbs.ts';

describe('git in a repository that is not trusted', () => {
  it('runs no program that its configuration, attributes or hooks name', async (t) => {
    const cwd = await repository(t, { 'a.js': 'var a;\n', '.gitattributes': '*.js diff=odd\n' });
    await toollint(['scan', '--baseline', 'b.jsonl', '--update-baseline', '--silent'], { cwd });
    committed(cwd);
    const trap = join(cwd, '.git', 'trap');
    writeFileSync(trap, `#!/bin/sh\ntouch ${cwd}/.git/sprung\ncat\n`);
    chmodSync(trap, 0o755);
    mkdirSync(join(cwd, '.git/hooks'), { recursive: true });
    for (const hook of ['post-index-change', 'fsmonitor-watchman']) {
      writeFileSync(join(cwd, '.git/hooks', hook), `#!/bin/sh\nexec ${trap}\n`);
      chmodSync(join(cwd, '.git/hooks', hook), 0o755);
    }
    writeFileSync(join(cwd, '.git/info/attributes'), '*.js filter=odd diff=odd\na.js filter=other\n');
    for (const key of ['core.fsmonitor', 'filter.odd.clean', 'filter.odd.smudge', 'filter.other.process'])
      git(cwd, 'config', key, trap);
    for (const key of ['diff.external', 'diff.odd.command', 'diff.odd.textconv', 'core.pager', 'core.sshCommand'])
      git(cwd, 'config', key, trap);
    for (const driver of ['odd', 'other']) git(cwd, 'config', `filter.${driver}.required`, 'true');
    writeFileSync(join(cwd, 'a.js'), 'var a; // changed\n');
    const sarif = { version: '2.1.0', runs: [{ tool: { driver: { name: 'l' } }, results: [] }] };
    writeFileSync(join(cwd, 'x.sarif'), JSON.stringify(sarif));
    const baseline = ['--baseline', 'b.jsonl', '--silent'];
    const known = await toollint(['scan', ...baseline, '--update-baseline', '--gate', 'new-code'], { cwd });
    assert.equal(known.code, 0, known.stderr);
    await toollint(['compare', 'b.jsonl', 'x.sarif', '--renames', 'git:HEAD'], { cwd });
    await toollint(['import', '--from', 'sarif', 'x.sarif'], { cwd });
    assert.equal(existsSync(join(cwd, '.git/sprung')), false);
    // The traps work: git itself runs them.
    assert.throws(() => git(cwd, 'diff'), /filter/u);
    assert.equal(existsSync(join(cwd, '.git/sprung')), true);
  });
});

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { revisionOf } from '../../lib/process/revision.ts';
import { temporaryFolder } from '../support/scope.ts';

describe('the revision of a program', () => {
  it('is the one in the manifest of a package, and unreleased without a package or a clone', () => {
    const root = temporaryFolder();
    writeFileSync(join(root, 'package.json'), '{}');
    assert.equal(revisionOf(root), 'unreleased');
    writeFileSync(join(root, 'package.json'), '{"revision":"0123456789ab"}');
    assert.equal(revisionOf(root), '0123456789ab');
  });

  it("is a clone's HEAD: on a branch, packed, detached and in a worktree", () => {
    const root = join(temporaryFolder(), 'clone');
    mkdirSync(root);
    const git = (...args: string[]): string => {
      const who = ['-c', 'user.name=test', '-c', 'user.email=test@localhost'];
      return execFileSync('git', ['-C', root, ...who, ...args], { encoding: 'utf8', stdio: 'pipe' }).trim();
    };
    git('init', '-q');
    writeFileSync(join(root, 'package.json'), '{}');
    git('add', '.');
    git('commit', '-qm', 'first');
    const first = git('rev-parse', 'HEAD').slice(0, 12);
    assert.equal(revisionOf(root), first);
    git('pack-refs', '--all');
    assert.equal(revisionOf(root), first);
    git('worktree', 'add', '-qb', 'other', '../worktree');
    git('commit', '-q', '--allow-empty', '-m', 'second');
    assert.equal(revisionOf(join(root, '../worktree')), first);
    assert.notEqual(revisionOf(root), first);
    git('checkout', '-q', '--detach', first);
    assert.equal(revisionOf(root), first);
  });
});

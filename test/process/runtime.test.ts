import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { runtimeWarning } from '../../lib/process/runtime.ts';

describe('the warning of a version of node', () => {
  for (const version of ['24.0.0', '24.21.0', '25.0.0', '25.9.0', '25.99.0'])
    it(`comes for ${version}, and names it`, () =>
      assert.match(runtimeWarning(version) ?? '', new RegExp(`node ${version} holds`)));
  for (const version of ['22.23.3', '23.11.0', '26.0.0', '26.10.0', '27.0.0', '240.0.0'])
    it(`does not come for ${version}`, () => assert.equal(runtimeWarning(version), undefined));
});

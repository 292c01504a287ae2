// The exit codes of a run that made a report, and the reasons that are given for them.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { exitReason, reportExitCode } from '../../../lib/toollint/command/exit-code.ts';
import { sampleReport } from '../support/samples.ts';

type Flags = Parameters<typeof reportExitCode>[2];

function ending(
  status: 'complete' | 'incomplete' | 'no-files',
  gate: 'not-evaluated' | 'passed' | 'warning' | 'failed',
  errors = 0,
  flags: Flags = {},
): [number, string] {
  const report = sampleReport([], (one) => {
    one.execution = { status, diagnostics: [] };
    one.gate = { status: gate };
  });
  const code = reportExitCode(report, errors, flags);
  return [code, exitReason(report, errors, code)];
}

describe('the exit code', () => {
  it('is the verdict of the gate, or without one whether there are errors', () => {
    assert.deepEqual(ending('complete', 'not-evaluated'), [0, 'no error finding']);
    assert.deepEqual(ending('complete', 'not-evaluated', 1), [1, '1 error finding']);
    assert.deepEqual(ending('complete', 'not-evaluated', 2), [1, '2 error findings']);
    assert.deepEqual(ending('complete', 'passed', 2), [0, 'the gate is passed']);
    assert.deepEqual(ending('complete', 'warning', 2), [0, 'the gate is warning']);
    assert.deepEqual(ending('complete', 'failed'), [1, 'the gate is failed']);
  });

  it('of a warning is 1 where that was asked for', () => {
    assert.deepEqual(ending('complete', 'warning', 0, { 'fail-on-warning': true }), [1, 'the gate is warning']);
    assert.deepEqual(ending('complete', 'passed', 2, { 'fail-on-warning': true }), [0, 'the gate is passed']);
    assert.deepEqual(ending('complete', 'warning', 0, { 'fail-on-warning': false }), [0, 'the gate is warning']);
  });

  it('of an analysis that is incomplete or empty comes before every verdict', () => {
    const flags = { 'exit-zero': true, 'fail-on-warning': true };
    assert.deepEqual(ending('incomplete', 'failed', 2, flags), [3, 'the analysis is incomplete']);
    assert.deepEqual(ending('no-files', 'failed', 0, flags), [4, 'no files were analysed']);
    assert.deepEqual(ending('no-files', 'not-evaluated', 0, { 'allow-no-files': true }), [
      0,
      'no files were analysed, which --allow-no-files allows',
    ]);
  });

  it('is 0 for a bad verdict where that was asked for', () => {
    assert.deepEqual(ending('complete', 'failed', 0, { 'exit-zero': true }), [0, '--exit-zero']);
    assert.deepEqual(ending('complete', 'not-evaluated', 1, { 'exit-zero': true }), [0, '--exit-zero']);
    assert.deepEqual(ending('complete', 'not-evaluated', 0, { 'exit-zero': true }), [0, 'no error finding']);
  });
});

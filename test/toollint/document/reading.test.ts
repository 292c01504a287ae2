import assert from 'node:assert/strict';
import { PassThrough, Readable } from 'node:stream';
import { describe, it } from 'node:test';
import {
  DOCUMENT_BYTES_MAX,
  Interrupted,
  memorySource,
  openReport,
  streamSource,
  validate,
} from '../../../lib/toollint/toollint.ts';
import { sampleFinding, sampleReport } from '../support/samples.ts';

describe('reading a report', () => {
  it('reads a value of tens of megabytes, and refuses 100,000 levels', () => {
    const report = JSON.stringify(sampleReport([{ ...sampleFinding(), codeSnippet: 'x\\"é'.repeat(3_000_000) }]));
    assert.deepEqual(validate(memorySource(report, 'sample')).problems, []);
    const deep = report.replace('{', `{"deep":${'['.repeat(100_000)}${']'.repeat(100_000)},`);
    assert.equal(validate(memorySource(deep, 'sample')).problems[0]?.code, 'too-deep');
  });

  it('reports every kind of fault, even beside 1,500 faults of another kind', () => {
    const findings = Array.from({ length: 1500 }, (_, index) => sampleFinding({ line: index + 1 }));
    const report = sampleReport(findings);
    for (const finding of report.findings) finding.occurrence = 7;
    report.summary.totalIssues = 4;
    const source = memorySource(JSON.stringify(report), 'sample');
    const codes = new Set(validate(source).problems.map(({ code }) => code));
    assert.deepEqual(codes, new Set(['wrong-occurrence', 'wrong-count']));
    assert.throws(() => openReport(source), /summary/u);
  });
});

describe('the bytes of a document', () => {
  it('are refused if they are longer than the limit', async () => {
    const megabyte = Buffer.alloc(2 ** 20);
    const most = Array.from({ length: DOCUMENT_BYTES_MAX / megabyte.length }, () => megabyte);
    assert.equal((await streamSource(Readable.from(most), 'r.json')).bytes.length, DOCUMENT_BYTES_MAX);
    await assert.rejects(streamSource(Readable.from([...most, Buffer.from('x')]), 'r.json'), {
      message: `r.json is longer than the limit of ${DOCUMENT_BYTES_MAX} bytes`,
    });
  });

  it('end with the signal', async () => {
    const waiting = new PassThrough();
    const interrupt = new AbortController();
    const reading = streamSource(waiting, 'x', { signal: interrupt.signal });
    interrupt.abort();
    await assert.rejects(reading, Interrupted);
    await assert.rejects(streamSource(new PassThrough(), 'x', { signal: interrupt.signal }), Interrupted);
  });
});

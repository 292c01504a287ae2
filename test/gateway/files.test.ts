// What a gateway says of its files at the start.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { readGatewayConfig } from '../../lib/gateway/config.ts';
import { readFiles } from '../../lib/gateway/files.ts';
import { createLog } from '../../lib/process/log.ts';
import { Pki } from '../support/pki.ts';
import { SYSTEM } from '../support/system.ts';

describe('the files of a gateway that starts', () => {
  it('are used although one has expired, and a warning names its key and path; without one there is none', async (t) => {
    const pki = await Pki.create();
    const log = createLog('test', 'error').child({}, { level: 'silent' });
    const warnings: string[] = [];
    t.mock.method(log, 'warn', (message: string) => warnings.push(message));
    const read = async (more: Readonly<Record<string, string>> = {}) => {
      const env = { INGEST_QUEUE_URI: 'redis://localhost', ...pki.environment, ...more };
      const { config, report } = readGatewayConfig(env);
      assert.ok(config !== undefined, report.problems.join());
      return readFiles(config, log, SYSTEM);
    };
    await read();
    assert.deepEqual(warnings, []);
    const old = await pki.authority.issue({
      commonName: 'localhost',
      server: true,
      notAfter: new Date(Date.now() - 60_000),
    });
    const path = pki.write('old.pem', old.certificate);
    const { material } = await read({ INGEST_TLS_CERT: path, INGEST_TLS_KEY: pki.write('old-key.pem', old.key) });
    assert.equal(material.expiry.length, 2);
    assert.deepEqual(warnings, [`INGEST_TLS_CERT="${path}": it has expired, so producers will be refused`]);
  });
});

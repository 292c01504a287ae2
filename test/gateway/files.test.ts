// What a gateway says of its files at the start.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { readGatewayConfig } from '../../lib/gateway/config.ts';
import { allFiles, readFiles, watchFiles } from '../../lib/gateway/files.ts';
import { gatewayMetrics } from '../../lib/gateway/metrics.ts';
import type { Producers } from '../../lib/gateway/producers-file.ts';
import { HANDSHAKE_FAILURES } from '../../lib/http/node/faults.ts';
import type { TlsMaterial } from '../../lib/identity/tls-material.ts';
import { ERROR_CODES } from '../../lib/ingest/errors.ts';
import { createLog } from '../../lib/process/log.ts';
import { StartFailure } from '../../lib/process/program.ts';
import { Pki } from '../support/pki.ts';
import { SYSTEM } from '../support/system.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

describe('files that are read side by side', () => {
  it('end the start with a line for each that cannot be used, and a bug is not one of them', async () => {
    const failed = (message: string): Promise<never> => Promise.reject(new StartFailure(2, message));
    await assert.rejects(allFiles([failed('one'), Promise.resolve(1), failed('two')]), { message: 'one\ntwo' });
    const bug = new TypeError('a bug');
    await assert.rejects(allFiles([failed('one'), Promise.reject(bug)]), bug);
    assert.deepEqual(await allFiles([Promise.resolve(1), Promise.resolve('a')]), [1, 'a']);
  });
});

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

  it('are taken into use again at SIGHUP: material by the gateway, rows by the quotas, and both are counted', async () => {
    const pki = await Pki.create();
    const log = createLog('test', 'error').child({}, { level: 'silent' });
    const path = pki.write('producers.json', '{"producers":{}}');
    const { config } = readGatewayConfig({
      ...{ INGEST_QUEUE_URI: 'redis://localhost', INGEST_PRODUCERS_FILE: path },
      ...pki.environment,
    });
    assert.ok(config !== undefined);
    const files = await readFiles(config, log, SYSTEM);
    pki.write('producers.json', '{"producers":{"shop":{"disabled":"moved"}}}');
    const metrics = gatewayMetrics(ERROR_CODES, HANDSHAKE_FAILURES, SYSTEM.clock);
    const [material, forgotten, rows] = [
      Promise.withResolvers<TlsMaterial>(),
      Promise.withResolvers<void>(),
      Promise.withResolvers<Producers>(),
    ];
    const seen: TlsMaterial[] = [];
    const users = {
      gateway: { replaceTls: material.resolve, forgetVerdicts: forgotten.resolve },
      quotas: { replace: rows.resolve },
      metrics,
      onMaterial: (changed: TlsMaterial) => void seen.push(changed),
    };
    const watched = watchFiles(config, files, users, log, new VirtualClock());
    watched.reload();
    assert.equal((await rows.promise).rulesFor('shop').disabled, 'moved');
    assert.deepEqual([await material.promise], seen);
    await forgotten.promise;
    watched.stop();
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual([metrics.tlsReloads.value, metrics.producersReloads.value], [1, 1]);
    assert.deepEqual([metrics.tlsReloadFailures.value, metrics.producersReloadFailures.value], [0, 0]);
  });
});

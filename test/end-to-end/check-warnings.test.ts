import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, it } from 'node:test';
import { Pki } from '../support/pki.ts';
import { Program, type ProgramName } from '../support/program.ts';
import { temporaryFolder } from '../support/scope.ts';

const folder = temporaryFolder();
const producers = join(folder, 'producers.json');
const schemas = join(folder, 'schemas');
let pki: Pki;
before(async () => {
  pki = await Pki.create();
  mkdirSync(schemas);
  writeFileSync(producers, '{"producers":{"spiffe://shop/web":{"audience":["ingest-gateway","other"]}}}');
});

async function warningsOf(name: ProgramName, env: Readonly<Record<string, string>>): Promise<readonly string[]> {
  const queue = { INGEST_QUEUE_URI: 'redis://127.0.0.1:1' };
  const program = new Program(name, { env: { ...pki.environment, ...queue, ...env }, args: ['--check'] });
  assert.equal(await program.ended, 0, program.output);
  assert.match(program.output, /the configuration is good/);
  return program.output.split('\n').filter((line) => line.includes('warning: '));
}
describe('--check', () => {
  it('of a gateway warns of settings that work together badly', async () => {
    const warnings = await warningsOf('ingest-gateway', {
      INGEST_BODY_BYTES_MAX: '2000',
      INGEST_IN_FLIGHT_BYTES_MAX: '1000',
      INGEST_GATEWAY_ADDR: '127.0.0.1:9',
      INGEST_ADMIN_ADDR: '127.0.0.1:9',
      INGEST_CONSUMER_ADDR: '127.0.0.1:9',
      INGEST_PROXY_FROM: '10.0.0.1, 0.0.0.0/0, ::/0',
      INGEST_PRODUCERS_FILE: producers,
    });
    for (const pattern of [
      /INGEST_BODY_BYTES_MAX \(2000\).*INGEST_IN_FLIGHT_BYTES_MAX \(1000\)/,
      /INGEST_ADMIN_ADDR and INGEST_GATEWAY_ADDR/,
      /INGEST_ADMIN_ADDR and INGEST_CONSUMER_ADDR/,
      /INGEST_PROXY_FROM=0\.0\.0\.0\/0/,
      /INGEST_PROXY_FROM=::\/0.*INGEST_CONNECTIONS_PER_ADDRESS_MAX/,
      /INGEST_PRODUCERS_FILE=.*"spiffe:\/\/shop\/web" grants the audience "other", but INGEST_AUDIENCE is/,
    ])
      assert.ok(
        warnings.some((line) => pattern.test(line)),
        `${pattern} in ${warnings.join('\n')}`,
      );
  });

  it('of a gateway prints no warning for ordinary settings', async () => {
    const env = { INGEST_ADMIN_ADDR: '127.0.0.1:8', INGEST_PROXY_FROM: '10.0.0.0/8' };
    assert.deepEqual(await warningsOf('ingest-gateway', env), []);
  });

  it('of a consumer warns of a folder without schemas', async () => {
    const env = { INGEST_WAREHOUSE_URI: `sqlite:${folder}/warehouse.db`, INGEST_SCHEMAS_DIR: schemas };
    const warnings = await warningsOf('ingest-consumer', env);
    assert.equal(warnings.length, 1);
    assert.match(warnings[0] ?? '', /INGEST_SCHEMAS_DIR=.*no schemas/);
  });
});

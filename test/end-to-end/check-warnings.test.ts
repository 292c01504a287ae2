// The warnings of --check for combinations of settings that work, but that nobody wants.
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
  for (const [what, env, ...warning] of [
    [
      'a body limit above the bytes in flight',
      { INGEST_BODY_BYTES_MAX: '2000', INGEST_IN_FLIGHT_BYTES_MAX: '1000' },
      /INGEST_BODY_BYTES_MAX \(2000\).*INGEST_IN_FLIGHT_BYTES_MAX \(1000\)/,
    ],
    [
      'one address for events and process endpoints',
      { INGEST_GATEWAY_ADDR: '127.0.0.1:9', INGEST_ADMIN_ADDR: '127.0.0.1:9' },
      /INGEST_ADMIN_ADDR and INGEST_GATEWAY_ADDR/,
    ],
    [
      'one address for the endpoints of gateway and consumer',
      { INGEST_CONSUMER_ADDR: '127.0.0.1:9', INGEST_ADMIN_ADDR: '127.0.0.1:9' },
      /INGEST_ADMIN_ADDR and INGEST_CONSUMER_ADDR/,
    ],
    ['balancers at any IPv4 address', { INGEST_PROXY_FROM: '10.0.0.1, 0.0.0.0/0' }, /INGEST_PROXY_FROM=0\.0\.0\.0\/0/],
    [
      'balancers at any IPv6 address',
      { INGEST_PROXY_FROM: '::/0' },
      /INGEST_PROXY_FROM=::\/0.*INGEST_CONNECTIONS_PER_ADDRESS_MAX/,
    ],
    [
      "a grant of an audience that is not the gateway's",
      { INGEST_PRODUCERS_FILE: producers },
      /INGEST_PRODUCERS_FILE=.*"spiffe:\/\/shop\/web" grants the audience "other", but INGEST_AUDIENCE is/,
    ],
    ['nothing if all is well', { INGEST_ADMIN_ADDR: '127.0.0.1:8', INGEST_PROXY_FROM: '10.0.0.0/8' }],
  ] as const) {
    it(`of a gateway warns of ${what}`, async () => {
      const warnings = await warningsOf('ingest-gateway', env);
      assert.equal(warnings.length, warning.length, warnings.join('\n'));
      for (const one of warning) assert.match(warnings[0] ?? '', one);
    });
  }

  it('of a consumer warns of a folder without schemas', async () => {
    const env = { INGEST_WAREHOUSE_URI: `sqlite:${folder}/warehouse.db`, INGEST_SCHEMAS_DIR: schemas };
    const warnings = await warningsOf('ingest-consumer', env);
    assert.equal(warnings.length, 1);
    assert.match(warnings[0] ?? '', /INGEST_SCHEMAS_DIR=.*no schemas/);
  });
});

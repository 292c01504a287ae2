// Process 1 of a container has no default signal handlers, so a program must install its own before anything else.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { describe, it } from 'node:test';
import { Program, type ProgramName } from '../support/program.ts';
import { atEnd, temporaryFolder } from '../support/scope.ts';

const DAEMONS = ['ingest-gateway', 'ingest-consumer'] as const satisfies ProgramName[];

const environment = (queueUri: string): Record<string, string> => ({
  INGEST_QUEUE_URI: queueUri,
  INGEST_WAREHOUSE_URI: `sqlite:${temporaryFolder()}/warehouse.db`,
  INGEST_STATE_DIR: temporaryFolder(),
  INGEST_GATEWAY_ADDR: '127.0.0.1:0',
  INGEST_CONSUMER_ADDR: '127.0.0.1:0',
  INGEST_ADMIN_ADDR: '127.0.0.1:0',
});

describe('a daemon that waits for its queue', () => {
  for (const name of DAEMONS) {
    it(`${name} survives SIGHUP and stops cleanly on SIGTERM`, { tags: ['long'] }, async () => {
      const silent = createServer();
      atEnd(() => void silent.close());
      await once(silent.listen(0), 'listening');
      const env = environment(`redis://127.0.0.1:${(silent.address() as AddressInfo).port}`);
      const asked = once(silent, 'connection');
      const program = new Program(name, { env });
      await asked;
      program.signal('SIGHUP');
      program.signal('SIGTERM');
      assert.equal(await program.ended, 0, program.output);
    });
  }

  it('does not report success for an interrupted check', async () => {
    const silent = createServer();
    atEnd(() => void silent.close());
    await once(silent.listen(0), 'listening');
    const env = environment(`redis://127.0.0.1:${(silent.address() as AddressInfo).port}`);
    const asked = once(silent, 'connection');
    const program = new Program('ingest-consumer', { env, args: ['--check=connect'] });
    await asked;
    program.signal('SIGTERM');
    assert.equal(await program.ended, 143, program.output);
  });
});

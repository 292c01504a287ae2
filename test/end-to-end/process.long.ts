// Configurations that a gateway cannot start with, but for those of process.test.ts.
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { assertEnds, file, good, pki, redis } from './process.ts';

describe('a gateway that cannot start', { concurrency: 3 }, () => {
  it('exits 2 without TLS material on an address that is not loopback', async () => {
    await assertEnds(2, { INGEST_QUEUE_URI: redis.uri, INGEST_GATEWAY_ADDR: '0.0.0.0:0' }, [
      /INGEST_TLS_CERT: expected a PEM file/,
      /INGEST_TLS_KEY: /,
      /INGEST_TLS_CLIENT_CA: /,
    ]);
  });

  it("exits 2 when the queue's deadline is not shorter than the request's", async () => {
    await assertEnds(2, { ...good, INGEST_ENQUEUE_TIMEOUT_MS: '10000' }, [
      /INGEST_ENQUEUE_TIMEOUT_MS="10000": expected less than INGEST_REQUEST_TIMEOUT_MS \(10000\)/,
    ]);
  });

  it('exits 2 when a TLS file is absent, no PEM, or of another key', async () => {
    await assertEnds(2, { ...good, INGEST_TLS_CERT: '/nowhere.pem' }, [
      /INGEST_TLS_CERT="\/nowhere.pem": expected a readable PEM file \(ENOENT\)/,
    ]);
    await assertEnds(2, { ...good, INGEST_TLS_CLIENT_CA: file('ca.pem', 'no PEM') }, [
      /INGEST_TLS_CLIENT_CA=.*certificate/,
    ]);
    const other = await pki.authority.issue({ commonName: 'other', server: true });
    await assertEnds(2, { ...good, INGEST_TLS_KEY: file('key.pem', other.key) }, [
      /INGEST_TLS_KEY.*do not work together/,
    ]);
  });

  it('exits 2 when the token keys cannot be read', async () => {
    await assertEnds(2, { ...good, INGEST_TOKEN_JWKS: '/nowhere.json' }, [
      /INGEST_TOKEN_JWKS="\/nowhere.json": expected a JSON Web Key Set/,
    ]);
    await assertEnds(2, { ...good, INGEST_TOKEN_JWKS: file('keys.json', '{"keys":1}') }, [/INGEST_TOKEN_JWKS=/]);
  });

  it('exits 2 when the state folder cannot be made', async () => {
    const blocked = join(file('file', ''), 'state');
    await assertEnds(
      2,
      { INGEST_QUEUE_URI: redis.uri, INGEST_GATEWAY_ADDR: '127.0.0.1:0', INGEST_STATE_DIR: blocked },
      [/INGEST_STATE_DIR=.*expected a writable folder/],
    );
  });

  it('exits 2 for an argument that there is not', async () => {
    await assertEnds(2, good, [/unknown argument --chek; --help/], ['--chek']);
  });

  it("exits 3 when its address is another machine's", async () => {
    await assertEnds(3, { ...good, INGEST_GATEWAY_ADDR: '192.0.2.1:0' }, [
      /INGEST_GATEWAY_ADDR=192\.0\.2\.1:0: cannot be bound \(EADDRNOTAVAIL\)/,
    ]);
  });
});

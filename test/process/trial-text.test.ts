import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { trialText, type Trial } from '../../lib/process/trial-text.ts';

const TRIAL: Trial = {
  address: 'https://127.0.0.1:8443',
  stateDir: '/srv/state',
  bin: 'bin',
  ownCertificates: false,
  database: '/srv/state/warehouse.db',
};

const commands = (trial: Partial<Trial> = {}): readonly string[] =>
  trialText({ ...TRIAL, ...trial })
    .split('\n')
    .filter((line) => line.startsWith('  '))
    .map((line) => line.trim());

describe('the text of make ingest-run', () => {
  it('has no query for a configured warehouse', () => {
    assert.equal(commands({ database: undefined }).length, 3);
    const text = trialText({ ...TRIAL, database: undefined });
    assert.ok(!text.includes('warehouse'));
    assert.match(text, /\/events\/first\n\n+Send a hundred/);
  });

  it('has placeholders for configured certificates', () => {
    assert.match(
      commands({ ownCertificates: true })[0] ?? '',
      /--cacert CA\.pem --cert PRODUCER\.pem --key PRODUCER-KEY\.pem /,
    );
  });

  it('quotes paths for a shell', () => {
    const [send = '', , query = ''] = commands({ stateDir: "/srv/it's here", database: '/srv/a b.db' });
    assert.ok(send.includes("--cacert '/srv/it'\\''s here/tls/ca.pem'"), send);
    assert.ok(query.includes("-readonly '/srv/a b.db'"), query);
  });
});

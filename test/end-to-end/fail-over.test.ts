import { describe, it } from 'node:test';
import { failOver } from './fail-over.ts';

describe('after a fail-over behind one name, events are accepted and land again within 5 s', () => {
  it('when the old master has become a replica of the new one', (t) =>
    failOver(t, (old, port) => old.command('REPLICAOF', '127.0.0.1', String(port))));
});

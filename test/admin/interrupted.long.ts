import { after, before } from 'node:test';
import { startPostgres, type PostgresServer } from '../support/postgres.ts';
import { postgresStore, sqliteStore } from '../support/warehouse-store.ts';
import { describeInterruptions } from './interrupted.ts';

let postgres: PostgresServer;
before(async () => {
  postgres = await startPostgres();
});
after(() => postgres.stop());

// interrupted.test.ts has the one that is left out.
describeInterruptions('SQLite', async () => sqliteStore(), ['replay', 'refusedReplay', 'erase']);
describeInterruptions('PostgreSQL', () => postgresStore(postgres), ['replay', 'refusedReplay', 'drop', 'erase']);

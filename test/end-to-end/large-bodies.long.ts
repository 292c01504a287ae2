import { after, before } from 'node:test';
import { startPostgres, type PostgresServer } from '../support/postgres.ts';
import { postgresStore, sqliteStore } from '../support/warehouse-store.ts';
import { BACKLOGS, describeBacklogs } from './large-bodies.ts';

let postgres: PostgresServer;
before(async () => {
  postgres = await startPostgres();
});
after(() => postgres.stop());

describeBacklogs('SQLite', async () => sqliteStore(), Object.values(BACKLOGS));
describeBacklogs('PostgreSQL', () => postgresStore(postgres), Object.values(BACKLOGS));

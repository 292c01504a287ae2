// A PostgreSQL server for one test file, with the warehouses and sessions that its tests open.
import { after, before, type TestContext } from 'node:test';
import pg from 'pg';
import type { LandingEvent, Warehouse } from '../../lib/ingest/warehouse.ts';
import type { WarehouseAdmin } from '../../lib/ingest/warehouse-admin.ts';
import { createPostgresAdmin } from '../../lib/postgres/admin.ts';
import { createPostgresWarehouse, type PostgresWarehouseOptions } from '../../lib/postgres/warehouse.ts';
import { openLink, type Link } from './link.ts';
import { startPostgres, type PostgresServer } from './postgres.ts';
import { SYSTEM } from './system.ts';

export const event = (id: string, change: Partial<LandingEvent> = {}): LandingEvent => ({
  id,
  type: 't',
  producer: 'shop',
  body: Buffer.from(`{"id":"${id}","type":"t"}`),
  acceptedAtMs: 1,
  ...change,
});

export class Postgres {
  server!: PostgresServer;

  /** Registers hooks that start and stop the server. */
  constructor() {
    before(async () => {
      this.server = await startPostgres();
    });
    after(() => this.server.stop());
  }

  /** Opens a warehouse without preparing it. */
  warehouse(t: TestContext, uri: string, more: Partial<PostgresWarehouseOptions> = {}): Warehouse {
    const warehouse = createPostgresWarehouse({ ...SYSTEM, uri, connectionsMax: 1, ...more });
    t.after(() => warehouse.close());
    return warehouse;
  }

  /** Prepares a warehouse in a new database. */
  async prepared(
    t: TestContext,
    more: Partial<PostgresWarehouseOptions> = {},
  ): Promise<{ readonly uri: string; readonly warehouse: Warehouse }> {
    const uri = more.uri ?? (await this.server.freshDatabase());
    const warehouse = this.warehouse(t, uri, more);
    await warehouse.prepare();
    return { uri, warehouse };
  }

  admin(t: TestContext, uri: string): WarehouseAdmin {
    const admin = createPostgresAdmin(uri, SYSTEM);
    t.after(() => admin.close());
    return admin;
  }

  async session(t: TestContext, uri: string, name = 'test'): Promise<pg.Client> {
    const client = new pg.Client({ connectionString: uri, application_name: name });
    await client.connect();
    t.after(() => client.end());
    return client;
  }

  /** Creates a role with the rights of `grant`, and returns the URI of a session that has the role. */
  async asRole(t: TestContext, uri: string, grant: string): Promise<{ readonly role: string; readonly uri: string }> {
    const role = `ingest_test_${process.pid}_${Math.random().toString(36).slice(2)}`;
    await this.server.query(uri, `CREATE ROLE ${role}; GRANT ${grant} TO ${role}`);
    t.after(() => this.server.query(uri, `DROP OWNED BY ${role}; DROP ROLE ${role}`));
    return { role, uri: withOptions(uri, `-c role=${role}`) };
  }

  /** Returns a new database and its URI through a link that the test can cut. */
  async linked(): Promise<{ readonly uri: string; readonly direct: string; readonly link: Link }> {
    const direct = await this.server.freshDatabase();
    const uri = new URL(direct);
    const folder = uri.searchParams.get('host');
    const port = Number(uri.port || 5432);
    const link = await openLink(
      folder === null ? { host: uri.hostname, port } : { path: `${folder}/.s.PGSQL.${port}` },
    );
    uri.searchParams.delete('host');
    uri.hostname = '127.0.0.1';
    uri.port = String(link.port);
    return { uri: uri.href, direct, link };
  }
}

export function withOptions(uri: string, options: string): string {
  const changed = new URL(uri);
  changed.searchParams.set('options', options);
  return changed.href;
}

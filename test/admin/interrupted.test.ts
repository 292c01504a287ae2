// The short form of interrupted.long.ts.
import { sqliteStore } from '../support/warehouse-store.ts';
import { describeInterruptions } from './interrupted.ts';

describeInterruptions('SQLite', async () => sqliteStore(), ['drop']);

// `make campaign` runs many rounds, and `make ingest-test-long` runs a few.
import { describeCampaign } from './campaign-test.ts';
import { ROUNDS, WAREHOUSES } from './settings.ts';

const ROUNDS_BY_DEFAULT = 3;

describeCampaign(WAREHOUSES, ROUNDS ?? ROUNDS_BY_DEFAULT);

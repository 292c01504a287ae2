// Both contracts of queues of 1 and 8 partitions; partitions.test.ts has those of 2.
import { describePartitions } from './partitions.ts';

for (const partitions of [1, 8]) describePartitions(partitions);

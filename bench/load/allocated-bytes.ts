// Preloaded into a measured program: answers each message on its IPC channel with the number of bytes that the program
// has allocated on V8's heap.
import { getHeapStatistics } from 'node:v8';

process.on('message', () => process.send?.(getHeapStatistics().total_allocated_bytes));
process.channel?.unref();

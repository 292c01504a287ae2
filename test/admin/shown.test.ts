// Numbers, times and tables as ingest-admin shows them.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { bytesText, counted, durationText, table } from '../../lib/admin/terminal.ts';

describe('numbers for people', () => {
  it('are bytes in the largest unit that leaves one before the point', () => {
    const shown = [0, 1_023, 1_024, 1_048_575, 1_048_576, 5 * 1_024 ** 4, 5 * 1_024 ** 5, undefined].map(bytesText);
    assert.deepEqual(shown, ['0 B', '1023 B', '1.0 KiB', '1024.0 KiB', '1.0 MiB', '5.0 TiB', '5120.0 TiB', 'unknown']);
  });

  it('are times in seconds, minutes and hours', () => {
    const shown = [0, 59_900, 60_000, 3_599_999, 3_600_000, 90_060_000].map(durationText);
    assert.deepEqual(shown, ['0.0 s', '59.9 s', '1 min 0 s', '59 min 59 s', '1 h 0 min', '25 h 1 min']);
  });

  it('are one row or several, in columns whose numbers end below each other', () => {
    assert.deepEqual([counted(1, 'row'), counted(0, 'row')], ['1 row', '0 rows']);
    assert.deepEqual(
      [counted(1, 'entry', 'entries'), counted(1_000, 'entry', 'entries')],
      ['1 entry', '1,000 entries'],
    );
    assert.deepEqual(
      table(
        [
          ['a', '1', ''],
          ['long', '100', 'x'],
        ],
        [1],
      ),
      ['a       1', 'long  100  x'],
    );
    assert.deepEqual(table([]), []);
  });
});

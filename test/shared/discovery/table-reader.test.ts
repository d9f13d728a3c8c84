import { expect, it } from 'vitest';
import { VirtualClock } from '../../../shared/clock/index.ts';
import { LeaseLiveness } from '../../../shared/discovery/dynamodb/lease-liveness.ts';
import { TableReader } from '../../../shared/discovery/dynamodb/table-reader.ts';
import type { Item, Table } from '../../../shared/discovery/table/table.ts';
import { TableTime } from '../../../shared/discovery/table/table-time.ts';
import { endpointAt } from '../../contract/discovery/records.ts';

const TTL_MS = 10_000;

it('judges a lease as of when it was asked for, however late the answer is looked at', async () => {
  const clock = new VirtualClock();
  const record = JSON.stringify(endpointAt('ns/backend/generate/a'));
  let frozenMs = 0;
  const query = async (pk: string): Promise<Item[]> => {
    if (!pk.startsWith('v1/leases')) {
      return [
        {
          pk: { S: pk },
          sk: { S: 'backend/generate/a' },
          record: { S: record },
          leaseId: { S: '1' },
          epoch: { N: '1' },
        },
      ];
    }
    const expiresAtMs = clock.wallMs() + TTL_MS; // renewed just now
    await clock.advance(frozenMs);
    return [{ sk: { S: '1' }, epoch: { N: '1' }, expiresAtMs: { N: `${expiresAtMs}` }, ttlMs: { N: `${TTL_MS}` } }];
  };
  const table = { query } as unknown as Table; // a reader only queries
  const reader = new TableReader({ table, clock, time: new TableTime(clock), liveness: new LeaseLiveness(1000) });
  const scope = { bucket: 'v1/instances', encodedPrefix: 'ns' } as const;
  for (frozenMs of [0, 60_000, 3_600_000]) {
    const reading = await reader.read([scope], new AbortController().signal);
    expect([...reading.texts('v1/instances').keys()]).toEqual(['ns/backend/generate/a']);
    expect(reading.dead).toEqual([]);
  }
});

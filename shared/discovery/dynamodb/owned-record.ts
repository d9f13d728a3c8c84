import { addressOf, type RecordAddress } from '../keys.ts';
import type { DiscoveryRecord } from '../records.ts';
import { ownCardOf } from './card-writer.ts';
import { packRecord } from './fleet/record-bytes.ts';
import type { OwnedRecord } from './lease-writer.ts';

/** The record as its process writes it. */
export function toOwned(record: DiscoveryRecord): OwnedRecord {
  const [address, instanceId] = [addressOf(record), record.instance_id];
  if (record.type !== 'Model') return { address, instanceId, bytes: packRecord(record) };
  const card = ownCardOf(record);
  const { card: _, ...rest } = record;
  const bytes = packRecord({ ...rest, cardSum: card.split.sum, ownCard: card.split.own });
  return { address, instanceId, bytes, card };
}

/** What tells the records of one process apart. */
export function nameOf({ address }: { readonly address: RecordAddress }): string {
  return `${address.bucket}/${address.key}`;
}

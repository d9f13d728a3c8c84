import { basename } from 'node:path';
import type { Discovery, DiscoveryRecord, ModelCard, ModelRecord } from '../discovery/index.ts';
import { withBlake3 } from '../tokens/index.ts';

/** Endpoints beside the one that generates, which Dynamo has, too. */
const SHARED_ENDPOINTS: ReadonlySet<string> = new Set(['clear_kv_blocks', 'load_lora', 'unload_lora', 'list_loras']);

/** Store of a worker's records. */
type Store = Pick<Discovery, 'backend' | 'put' | 'remove'>;

/**
 * Writes the records of a worker as those of a worker of Dynamo, so that frontends of Dynamo find it. Records that they
 * could not use are left out: event channels with messages of Stator, and endpoints that only Stator calls.
 */
export class DynamoRegistry implements Store {
  readonly #store: Store;
  readonly #generate: string;
  readonly #cards = new WeakMap<ModelCard, Promise<ModelCard>>();

  /** @param generate name of the endpoint that generates */
  constructor(store: Store, generate: string) {
    this.#store = store;
    this.#generate = generate;
  }

  get backend(): string {
    return this.#store.backend;
  }

  async put(record: DiscoveryRecord, signal?: AbortSignal): Promise<void> {
    const theirs = await this.#theirs(record);
    if (theirs !== undefined) await this.#store.put(theirs, signal);
  }

  async remove(record: DiscoveryRecord, signal?: AbortSignal): Promise<void> {
    const theirs = await this.#theirs(record);
    if (theirs !== undefined) await this.#store.remove(theirs, signal);
  }

  async #theirs(record: DiscoveryRecord): Promise<DiscoveryRecord | undefined> {
    if (record.wire === 'dynamo') return record; // an event channel and what belongs to it
    switch (record.type) {
      case 'Endpoint': {
        if (record.endpoint !== this.#generate && !SHARED_ENDPOINTS.has(record.endpoint)) return undefined;
        return { ...record, wire: 'dynamo' };
      }
      case 'Model':
        return { ...record, wire: 'dynamo', card: await this.#cardOf(record) };
      default:
        return undefined;
    }
  }

  /** Returns the card with addresses and checksums of its files as Dynamo has them. It reads the files once. */
  #cardOf({ card, files_at: at }: ModelRecord): Promise<ModelCard> {
    const known = this.#cards.get(card);
    if (known !== undefined) return known;
    const written = describedFiles(card, at);
    this.#cards.set(card, written);
    return written;
  }
}

async function describedFiles(given: ModelCard, at: string | undefined): Promise<ModelCard> {
  const isSummed = Object.values(given.files).every(({ blake3 }) => blake3 !== undefined);
  const summed = isSummed ? given.files : await withBlake3(given.files);
  const files = Object.entries(summed).map(([role, { path, checksum, blake3 = checksum, size }]) => {
    const place = at === undefined ? path : `http://${at}/${encodeURIComponent(basename(path))}`;
    return [role, { path: place, checksum: blake3, size }];
  });
  return { ...given, files: Object.fromEntries(files) };
}

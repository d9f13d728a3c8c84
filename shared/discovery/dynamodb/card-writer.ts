import type { Clock } from '../../clock/index.ts';
import { DiscoveryError } from '../options.ts';
import type { ModelRecord } from '../records.ts';
import type { Table } from '../table/table.ts';
import type { TableTime } from '../table/table-time.ts';
import { type SplitCard, splitCard } from './fleet/card-split.ts';
import { CARDS_PK, CATALOGUE_PK } from './schema.ts';

/** The card of a model that this process offers. */
export interface OwnCard {
  readonly split: SplitCard;
  /** What the catalogue is to say of the model; undefined for what nobody asks for by name without a worker. */
  readonly entry: StoredEntry | undefined;
}

/** A model as the catalogue has it. */
export interface StoredEntry {
  readonly name: string;
  readonly cardSum: string;
  readonly namespace: string;
  readonly component: string;
  readonly endpoint: string;
}

/** DynamoDB takes 400 KB an item, names included; the rest of a card's item stays below 2 KB. */
const CARD_BYTES_MAX = 398 * 1024;
/** A sort key takes 1,024 bytes. */
const NAME_BYTES_MAX = 1024;
export const CARD_GARBAGE_AFTER_S = 30 * 86_400;
const REFRESH_MS = 86_400_000;

/** The card of `record` as this process writes it. Throws when it does not fit into an item. */
export function ownCardOf(record: ModelRecord): OwnCard {
  const split = splitCard(record.card);
  const bytes = Buffer.byteLength(split.shared) + Buffer.byteLength(split.own);
  if (bytes > CARD_BYTES_MAX) {
    const { namespace, component, endpoint, instance_id: id } = record;
    const size = `${Math.ceil(bytes / 1024)} KB`;
    const hint = 'Keep large parts, such as the chat template, as files by checksum';
    const what = `the card of ${namespace}/${component}/${endpoint}/${id} has ${size}, DynamoDB takes 400 KB`;
    throw new DiscoveryError('record_too_large', `${what}. ${hint}`);
  }
  return { split, entry: entryOf(record, split.sum) };
}

/** Adapters come and go with their workers, and prefill and encode workers answer nobody by name. */
function entryOf(record: ModelRecord, cardSum: string): StoredEntry | undefined {
  const { card, model_suffix: adapter, namespace, component, endpoint } = record;
  const { display_name: name, worker_type: role } = card;
  const isAsked = adapter === undefined && card.lora === undefined && (role === 'aggregated' || role === 'decode');
  if (!isAsked || Buffer.byteLength(name) > NAME_BYTES_MAX) return undefined;
  return { name, cardSum, namespace, component, endpoint };
}

/** Writes what outlives the workers: each card once by its checksum, and which models there are. */
export class CardWriter {
  readonly #table: Table;
  readonly #time: TableTime;
  readonly #clock: Clock;
  readonly #writtenAtMs = new Map<string, number>(); // by checksum; as many as the process has models

  constructor(table: Table, time: TableTime, clock: Clock) {
    this.#table = table;
    this.#time = time;
    this.#clock = clock;
  }

  /** Makes sure that the card is there; looked after once a day. */
  async ensureCard({ split: { sum, shared } }: OwnCard, signal: AbortSignal): Promise<void> {
    const writtenAtMs = this.#writtenAtMs.get(sum);
    if (writtenAtMs !== undefined && this.#clock.nowMs() - writtenAtMs < REFRESH_MS) return;
    const ttl = Math.ceil(this.#time.nowMs() / 1000) + CARD_GARBAGE_AFTER_S;
    const change = {
      key: { pk: CARDS_PK, sk: sum },
      names: { '#ttl': 'ttl' },
      values: { ':card': shared, ':ttl': ttl },
    };
    await this.#table.update('SET card = :card, #ttl = :ttl', change, signal);
    this.#writtenAtMs.set(sum, this.#clock.nowMs());
  }

  /** Forgets what was written: a table that lost its lease may have lost all. */
  forget(): void {
    this.#writtenAtMs.clear();
  }

  /** Makes the model known to those who never saw a worker of it. The worker that registers last is right about its card. */
  async ensureEntry({ entry }: OwnCard, signal: AbortSignal): Promise<void> {
    if (entry === undefined) return;
    const { name, cardSum, namespace, component, endpoint } = entry;
    const change = {
      key: { pk: CATALOGUE_PK, sk: name },
      condition:
        'attribute_not_exists(sk) OR card <> :card OR #ns <> :ns OR component <> :component OR endpoint <> :endpoint',
      names: { '#ns': 'namespace' },
      values: { ':card': cardSum, ':ns': namespace, ':component': component, ':endpoint': endpoint },
    };
    const set = 'SET card = :card, #ns = :ns, component = :component, endpoint = :endpoint';
    await this.#table.update(set, change, signal); // false: it says so already
  }
}

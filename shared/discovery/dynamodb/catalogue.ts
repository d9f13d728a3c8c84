import { deflateRawSync, inflateRawSync } from 'node:zlib';
import type { Clock } from '../../clock/index.ts';
import { Told } from '../loads.ts';
import { DiscoveryError } from '../options.ts';
import { PackedReader, PackedWriter } from '../packed.ts';
import type { ModelRecord } from '../records.ts';
import type { Item, Table } from '../table/table.ts';
import type { TableTime } from '../table/table-time.ts';
import type { CatalogueEntry, ReportProblem } from '../types.ts';
import { type CardShelf, type SplitCard, splitCard } from './fleet/cards.ts';
import { CARDS_PK, CATALOGUE_PK } from './schema.ts';

const INFLATED_BYTES_MAX = 4 * 1024 * 1024;
/**
 * Most models that are shown without workers. Further models are known only while they have workers. A packed catalogue
 * of this many takes about 200 KB.
 */
const MODELS_MAX = 4096;

/** Reads the stored models, in the order of their names. */
export async function readCatalogue(table: Table, signal: AbortSignal, isExact: boolean): Promise<StoredEntry[]> {
  const items = await table.query(CATALOGUE_PK, undefined, signal, isExact);
  return items.flatMap((item) => toEntry(item) ?? []);
}

/** Deletes a model. Returns false if there is no such model. */
export function forgetModel(table: Table, name: string, signal: AbortSignal): Promise<boolean> {
  const key = { pk: CATALOGUE_PK, sk: name };
  return table.delete({ key, condition: 'attribute_exists(sk)' }, signal);
}

/** Keeps the cards in the catalogue from expiring. */
export async function keepCards(
  table: Table,
  time: TableTime,
  entries: readonly StoredEntry[],
  signal: AbortSignal,
): Promise<void> {
  const ttl = Math.ceil(time.nowMs() / 1000) + CARD_GARBAGE_AFTER_S;
  for (const sum of new Set(entries.map(({ cardSum }) => cardSum))) {
    const change = { condition: 'attribute_exists(sk)', names: { '#ttl': 'ttl' }, values: { ':ttl': ttl } };
    await table.update('SET #ttl = :ttl', { key: { pk: CARDS_PK, sk: sum }, ...change }, signal);
  }
}

/** Packs the catalogue for the view. */
export function packCatalogue(entries: readonly StoredEntry[]): Uint8Array {
  const writer = new PackedWriter(1024);
  for (const { name, cardSum, namespace, component, endpoint } of entries.slice(0, MODELS_MAX)) {
    for (const text of [name, cardSum, namespace, component, endpoint]) writer.text(text);
  }
  return deflateRawSync(writer.finish());
}

/** Returns undefined for bytes that `packCatalogue` cannot have made. */
function unpackCatalogue(bytes: Uint8Array): readonly StoredEntry[] | undefined {
  try {
    const reader = new PackedReader(inflateRawSync(bytes, { maxOutputLength: INFLATED_BYTES_MAX }));
    const entries: StoredEntry[] = [];
    while (!reader.isAtEnd && entries.length < MODELS_MAX) {
      const [name, cardSum] = [reader.text(), reader.text()];
      entries.push({ name, cardSum, namespace: reader.text(), component: reader.text(), endpoint: reader.text() });
    }
    return entries;
  } catch {
    return undefined;
  }
}

/** Models of the catalogue that this process knows, and their listeners. */
export class CatalogueBoard extends Told<readonly CatalogueEntry[]> {
  readonly #shelf: CardShelf;
  readonly #report: ReportProblem;
  #stored: readonly StoredEntry[] = [];
  #packed: Uint8Array = new Uint8Array();

  constructor(shelf: CardShelf, report: ReportProblem) {
    super([], 'the catalogue', report);
    this.#shelf = shelf;
    this.#report = report;
  }

  /** Takes the catalogue from the view. */
  take(packed: Uint8Array): void {
    if (Buffer.compare(packed, this.#packed) === 0) return;
    this.#packed = packed;
    const stored = unpackCatalogue(packed);
    if (stored === undefined) this.#report(new Error('the catalogue of the fleet view cannot be read'));
    else this.#stored = stored;
  }

  /** Returns the checksums of the cards that it needs to show its models. */
  missingCards(isShown: (name: string) => boolean): readonly string[] {
    const shown = this.#stored.filter(({ name }) => isShown(name));
    return shown.map(({ cardSum }) => cardSum).filter((sum) => !this.#shelf.has(sum));
  }

  /** Reports the models whose cards are known, if they have changed. */
  show(): void {
    const models = entriesOf(this.#stored, this.#shelf);
    const isSame =
      models.length === this.value.length &&
      models.every(({ card, namespace, component, endpoint }, at) => {
        const before = this.value[at];
        const isThere =
          namespace === before?.namespace && component === before.component && endpoint === before.endpoint;
        return card === before?.card && isThere;
      });
    if (!isSame) this.set(models);
  }
}

/** Returns the entries whose cards are on the shelf. */
export function entriesOf(stored: readonly StoredEntry[], shelf: CardShelf): readonly CatalogueEntry[] {
  return stored.flatMap(({ cardSum, namespace, component, endpoint }) => {
    const card = shelf.card(cardSum, '{}');
    return card === undefined ? [] : [{ namespace, component, endpoint, card }];
  });
}

/** Reads the cards of `sums` and puts them on the shelf. The next reading asks again for a missing card. */
export async function fetchCards(
  table: Table,
  shelf: CardShelf,
  sums: Iterable<string>,
  signal: AbortSignal,
): Promise<void> {
  const keys = [...new Set(sums)].map((sum) => ({ pk: CARDS_PK, sk: sum }));
  if (keys.length === 0) return;
  for (const item of await table.batchGet(keys, signal)) {
    if (item.sk?.S !== undefined && item.card?.S !== undefined) shelf.put(item.sk.S, item.card.S);
  }
}

function toEntry(item: Item): StoredEntry | undefined {
  const [name, cardSum] = [item.sk?.S, item.card?.S];
  const [namespace, component, endpoint] = [item.namespace?.S, item.component?.S, item.endpoint?.S];
  if (name === undefined || cardSum === undefined) return undefined;
  if (namespace === undefined || component === undefined || endpoint === undefined) return undefined;
  return { name, cardSum, namespace, component, endpoint };
}

/** Card of a model that this process offers. */
export interface OwnCard {
  readonly split: SplitCard;
  /**
   * Entry of the catalogue for the model; undefined for a model that clients do not ask for by name without a worker.
   */
  readonly entry: StoredEntry | undefined;
}

/** Model as the catalogue holds it. */
interface StoredEntry {
  readonly name: string;
  readonly cardSum: string;
  readonly namespace: string;
  readonly component: string;
  readonly endpoint: string;
}

/** Largest card: DynamoDB accepts 400 KB per item, including names, and the rest of a card's item stays below 2 KB. */
const CARD_BYTES_MAX = 398 * 1024;
/** Longest sort key: 1,024 bytes. */
const NAME_BYTES_MAX = 1024;
const CARD_GARBAGE_AFTER_S = 30 * 86_400;
const REFRESH_MS = 86_400_000;

/** Returns the card of `record` as this process writes it. Throws if it is too large for an item. */
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

/**
 * Whether the catalogue keeps the model. Adapters come and go with their workers, and clients do not ask for prefill
 * and encode workers by name.
 */
function entryOf(record: ModelRecord, cardSum: string): StoredEntry | undefined {
  const { card, model_suffix: adapter, namespace, component, endpoint } = record;
  const { display_name: name, worker_type: role } = card;
  const isAsked = adapter === undefined && card.lora === undefined && (role === 'aggregated' || role === 'decode');
  if (!isAsked || Buffer.byteLength(name) > NAME_BYTES_MAX) return undefined;
  return { name, cardSum, namespace, component, endpoint };
}

/** Writes the data that outlives the workers: each card once, by its checksum, and the list of models. */
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

  /** Makes sure that the card is stored. It checks once a day. */
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

  /** Forgets what it has written, because a table that lost this lease may have lost everything. */
  forget(): void {
    this.#writtenAtMs.clear();
  }

  /**
   * Stores the model for readers that have never seen a worker of it. The card of the worker that registers last
   * replaces earlier ones.
   */
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
    await this.#table.update(set, change, signal); // false: the table already has this model
  }
}

import type { EventScope, EventTransport } from '../../../planes/index.ts';
import { PackedReader, PackedWriter } from '../../packed.ts';
import type { EndpointRecord, EventChannelRecord, ModelRecord } from '../../records.ts';

/** A model record as stored. Its card is stored separately, once, under its checksum. */
export interface StoredModel extends Omit<ModelRecord, 'card'> {
  readonly cardSum: string;
  /** This worker's own part of the card; JSON. */
  readonly ownCard: string;
}

export type StoredRecord = EndpointRecord | EventChannelRecord | StoredModel;

// Both numbers and names are stored: the meaning of a number never changes.
const ENDPOINT = 1;
const MODEL = 2;
const CHANNEL = 3;
const SCOPES = ['namespace', 'component', 'endpoint'] as const satisfies readonly EventScope['kind'][];
const CHANNEL_KINDS = ['Zmq', 'ZmqBroker', 'Nats', 'Memory'] as const satisfies readonly EventTransport['kind'][];

const NAME_BYTES_MAX = 4096; // 1,024 characters
const JSON_BYTES_MAX = 64 * 1024;
const ID_DIGITS_MAX = 16;
/** Largest number of records of one process. */
const RECORDS_MAX = 8192;

/**
 * Packs a record into few bytes. Fields that this version does not know follow as JSON, so that they survive. Throws
 * `RangeError` for an invalid id.
 */
export function packRecord(record: StoredRecord): Uint8Array {
  const writer = new PackedWriter();
  switch (record.type) {
    case 'Endpoint': {
      const { type: _, namespace, component, endpoint, instance_id, transport, device_type = '', ...rest } = record;
      const [[kind, address] = ['', '']] = Object.entries(transport);
      writer.byte(ENDPOINT);
      for (const text of [namespace, component, endpoint, kind, address, device_type]) writer.text(text);
      writeId(writer, instance_id);
      writeRest(writer, rest);
      break;
    }
    case 'Model': {
      const { type: _, namespace, component, endpoint, instance_id, ...more } = record;
      const { model_suffix = '', registered_at = 0, cardSum, ownCard, ...rest } = more;
      writer.byte(MODEL);
      for (const text of [namespace, component, endpoint, model_suffix, cardSum, ownCard]) writer.text(text);
      writeId(writer, instance_id);
      writer.count(Math.max(0, Math.floor(registered_at)));
      writeRest(writer, rest);
      break;
    }
    case 'EventChannel': {
      const { type: _, scope, topic, instance_id, transport, worker_id = '', ...rest } = record;
      writer.byte(CHANNEL);
      writer.byte(SCOPES.indexOf(scope.kind));
      writer.byte(CHANNEL_KINDS.indexOf(transport.kind));
      for (const text of [...scopeNames(scope), topic, worker_id, JSON.stringify(transport.config)]) writer.text(text);
      writeId(writer, instance_id);
      writeRest(writer, rest);
    }
  }
  return writer.finish();
}

/** Reverses `packRecord`. Returns undefined for bytes that it cannot have made. */
export function unpackRecord(bytes: Uint8Array): StoredRecord | undefined {
  try {
    const reader = new PackedReader(bytes);
    const record = readRecord(reader, reader.byte());
    return reader.isAtEnd ? record : undefined;
  } catch {
    return undefined; // cut short, out of bounds or not JSON, so a faulty process wrote it
  }
}

/** Packs the records of one process into one piece. */
export function packBlock(records: readonly Uint8Array[]): Uint8Array {
  const writer = new PackedWriter(records.reduce((sum, { length }) => sum + length + 3, 0));
  for (const record of records) writer.bytes(record);
  return writer.finish();
}

/** Returns the packed records of a block; records after the first damage are lost. */
export function unpackBlock(block: Uint8Array): readonly Uint8Array[] {
  const records: Uint8Array[] = [];
  try {
    const reader = new PackedReader(block);
    while (!reader.isAtEnd && records.length < RECORDS_MAX) records.push(reader.bytes());
  } catch {
    // the block was cut short: the records before the cut are whole
  }
  return records;
}

const SUMS = new WeakMap<Uint8Array, readonly string[]>(); // every reading asks for the same block again
const NO_SUMS: readonly string[] = [];

/** Returns the checksums of the cards that the model records of a block name, without reading the rest. */
export function cardSumsOf(block: Uint8Array): readonly string[] {
  const known = SUMS.get(block);
  if (known !== undefined) return known;
  const sums = unpackBlock(block).flatMap((record) => (record[0] === MODEL ? readCardSum(record) : NO_SUMS));
  SUMS.set(block, sums);
  return sums;
}

function readCardSum(record: Uint8Array): readonly string[] {
  try {
    const reader = new PackedReader(record);
    reader.byte();
    for (let before = 0; before < 4; before++) reader.bytes(NAME_BYTES_MAX); // the path, and an adapter's name
    return [reader.text(NAME_BYTES_MAX)];
  } catch {
    return NO_SUMS; // cut short: `unpackRecord` reports it when the block is shown
  }
}

function readRecord(reader: PackedReader, kind: number): StoredRecord | undefined {
  switch (kind) {
    case ENDPOINT: {
      const path = readPath(reader);
      const transport = { [readName(reader)]: readName(reader) };
      const device_type = reader.text(NAME_BYTES_MAX);
      const instance_id = readId(reader);
      const device = device_type === '' ? {} : { device_type };
      return { ...readRest(reader), type: 'Endpoint', ...path, instance_id, transport, ...device };
    }
    case MODEL: {
      const path = readPath(reader);
      const model_suffix = reader.text(NAME_BYTES_MAX);
      const [cardSum, ownCard] = [reader.text(NAME_BYTES_MAX), reader.text(JSON_BYTES_MAX)];
      const instance_id = readId(reader);
      const registered_at = reader.count();
      const suffix = model_suffix === '' ? {} : { model_suffix };
      const since = registered_at === 0 ? {} : { registered_at };
      return { ...readRest(reader), type: 'Model', ...path, instance_id, cardSum, ownCard, ...suffix, ...since };
    }
    case CHANNEL: {
      const scopeKind = SCOPES[reader.byte()];
      const kind = CHANNEL_KINDS[reader.byte()];
      const scope = readScope(reader, scopeKind);
      const [topic, worker_id] = [readName(reader), reader.text(NAME_BYTES_MAX)];
      const config: unknown = JSON.parse(reader.text(JSON_BYTES_MAX));
      const instance_id = readId(reader);
      if (scope === undefined || kind === undefined || typeof config !== 'object' || config === null) return undefined;
      const transport = { kind, config } as EventTransport; // a process that connects to it checks its addresses
      const worker = worker_id === '' ? {} : { worker_id };
      return { ...readRest(reader), type: 'EventChannel', scope, topic, instance_id, transport, ...worker };
    }
    default:
      return undefined; // written by a later version
  }
}

function scopeNames(scope: EventScope): readonly [string, string, string] {
  return [
    scope.namespace,
    scope.kind === 'namespace' ? '' : scope.component,
    scope.kind === 'endpoint' ? scope.endpoint : '',
  ];
}

/** Returns three names; names that the kind does not have are empty. */
function readScope(reader: PackedReader, kind: EventScope['kind'] | undefined): EventScope | undefined {
  const namespace = readName(reader);
  const [component, endpoint] = [reader.text(NAME_BYTES_MAX), reader.text(NAME_BYTES_MAX)];
  if (kind === 'namespace') return { kind, namespace };
  if (kind === undefined || component === '') return undefined;
  if (kind === 'component') return { kind, namespace, component };
  return endpoint === '' ? undefined : { kind, namespace, component, endpoint };
}

function readPath(reader: PackedReader) {
  return { namespace: readName(reader), component: readName(reader), endpoint: readName(reader) };
}

function readName(reader: PackedReader): string {
  const name = reader.text(NAME_BYTES_MAX);
  if (name === '') throw new RangeError('an empty name');
  return name;
}

function writeId(writer: PackedWriter, id: string): void {
  if (!/^[0-9a-f]{1,16}$/.test(id)) {
    throw new RangeError(`instance_id ${JSON.stringify(id)}: allowed are 1 to 16 lower-case hex digits`);
  }
  writer.hex(id);
}

function readId(reader: PackedReader): string {
  const id = reader.hex();
  if (id.length === 0 || id.length > ID_DIGITS_MAX) throw new RangeError(`an id of ${id.length} digits`);
  return id;
}

function writeRest(writer: PackedWriter, rest: object): void {
  const text = JSON.stringify(rest);
  writer.text(text === '{}' ? '' : text);
}

function readRest(reader: PackedReader): object {
  const text = reader.text(JSON_BYTES_MAX);
  const rest: unknown = text === '' ? {} : JSON.parse(text);
  return typeof rest === 'object' && rest !== null ? rest : {};
}

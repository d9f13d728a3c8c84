import { MsgpackCursor, MsgpackError } from './msgpack-cursor.ts';

/** Hashes as pairs of u32 halves, low half first. */
export type EngineEvent =
  | {
      readonly kind: 'stored';
      readonly blockHashes: Uint32Array;
      /** One pair; undefined for the first block of a prompt. */
      readonly parentHash: Uint32Array | undefined;
      /** Those of all blocks, one after the other. */
      readonly tokenIds: Uint32Array;
      readonly blockSizeTokens: number;
      /** What else the hash of each block covers, untagged: adapter, `[media id, offset]`, salt, digests of embeddings. */
      readonly extraKeys: readonly (readonly unknown[] | null)[] | undefined;
      readonly loraId: number | undefined;
      readonly loraName: string | undefined;
      /** Named by SGLang; vLLM has it among the extra keys. */
      readonly cacheSalt: string | undefined;
      readonly medium: string | undefined;
      readonly group: number | undefined;
      readonly cacheKind: string | undefined;
    }
  | {
      readonly kind: 'removed';
      readonly blockHashes: Uint32Array;
      readonly medium: string | undefined;
      readonly group: number | undefined;
    }
  | { readonly kind: 'cleared' };

/** What an engine tells of one step. */
export interface EventBatch {
  /** Unix seconds by the engine's clock. */
  readonly timestampSecs: number;
  readonly events: readonly EngineEvent[];
  /** Undefined where the engine does not say it: then it is the rank of the socket. */
  readonly dataParallelRank: number | undefined;
  /** Events of a kind or shape that is not known, left out. */
  readonly unreadable: number;
}

/** Positions of the fields in events that are arrays (vLLM to 0.22, SGLang to 0.5.9). */
const STORED_FIELDS = [
  'block_hashes',
  'parent_block_hash',
  'token_ids',
  'block_size',
  'lora_id',
  'medium',
  'lora_name',
  'extra_keys',
  'group_idx',
  'kv_cache_spec_kind',
] as const;
const REMOVED_FIELDS = ['block_hashes', 'medium', 'group_idx'] as const;

/** Fields of one event as they are read, in any order. */
interface Draft {
  type: string | undefined;
  hashes: Uint32Array | undefined;
  parent: Uint32Array | undefined;
  tokens: Uint32Array | undefined;
  blockSize: number | undefined;
  extraKeys: readonly (readonly unknown[] | null)[] | undefined;
  loraId: number | undefined;
  loraName: string | undefined;
  cacheSalt: string | undefined;
  medium: string | undefined;
  group: number | undefined;
  cacheKind: string | undefined;
}

/**
 * Reads one batch of an engine's KV events in any layout: the batch is an array,
 * events are arrays or maps, fields may be left out or follow that are not known.
 *
 * @throws MsgpackError when the payload is no batch at all
 */
export function decodeEventBatch(payload: Uint8Array): EventBatch {
  const cursor = new MsgpackCursor(payload);
  const fields = cursor.array();
  if (fields < 2) throw new MsgpackError(`a batch of ${fields} fields`);
  const timestampSecs = cursor.number();
  const events: EngineEvent[] = [];
  let unreadable = 0;
  for (let left = cursor.array(); left > 0; left--) {
    const event = readEvent(cursor);
    if (event === undefined) unreadable++;
    else events.push(event);
  }
  const dataParallelRank = fields > 2 && !cursor.nil() ? cursor.integer() : undefined;
  return { timestampSecs, events, dataParallelRank, unreadable };
}

/** Undefined for an event of a kind that is not known, or that says too little. */
function readEvent(cursor: MsgpackCursor): EngineEvent | undefined {
  const draft = {} as Draft;
  if (cursor.isMap()) for (let left = cursor.map(); left > 0; left--) readField(cursor, cursor.text(), draft);
  else readPositions(cursor, draft);
  const { hashes } = draft;
  if (draft.type === 'AllBlocksCleared') return { kind: 'cleared' };
  if (hashes === undefined) return undefined;
  if (draft.type === 'BlockRemoved') {
    return { kind: 'removed', blockHashes: hashes, medium: draft.medium, group: draft.group };
  }
  if (draft.type !== 'BlockStored' || draft.tokens === undefined || draft.blockSize === undefined) return undefined;
  if (draft.blockSize < 1 || draft.tokens.length !== draft.blockSize * (hashes.length / 2)) return undefined;
  return {
    kind: 'stored',
    blockHashes: hashes,
    parentHash: draft.parent,
    tokenIds: draft.tokens,
    blockSizeTokens: draft.blockSize,
    extraKeys: draft.extraKeys,
    loraId: draft.loraId,
    loraName: draft.loraName,
    cacheSalt: draft.cacheSalt,
    medium: draft.medium,
    group: draft.group,
    cacheKind: draft.cacheKind,
  };
}

function readPositions(cursor: MsgpackCursor, draft: Draft): void {
  let left = cursor.array();
  if (left === 0) return;
  draft.type = cursor.text();
  left--;
  const names = draft.type === 'BlockStored' ? STORED_FIELDS : draft.type === 'BlockRemoved' ? REMOVED_FIELDS : [];
  for (let at = 0; at < left; at++) readField(cursor, names[at] ?? '', draft);
}

function readField(cursor: MsgpackCursor, name: string, draft: Draft): void {
  if (cursor.nil()) return;
  switch (name) {
    case 'type':
      draft.type = cursor.text();
      return;
    case 'block_hashes':
      draft.hashes = readHashes(cursor);
      return;
    case 'parent_block_hash':
      draft.parent = new Uint32Array(2);
      cursor.hash(draft.parent, 0);
      return;
    case 'token_ids':
      draft.tokens = readTokenIds(cursor);
      return;
    case 'block_size':
      draft.blockSize = cursor.integer();
      return;
    case 'lora_id':
      draft.loraId = cursor.integer();
      return;
    case 'lora_name':
      draft.loraName = cursor.text();
      return;
    case 'cache_salt':
      draft.cacheSalt = cursor.text();
      return;
    case 'medium':
      draft.medium = cursor.text();
      return;
    case 'group_idx':
      draft.group = cursor.integer();
      return;
    case 'kv_cache_spec_kind':
      draft.cacheKind = cursor.text();
      return;
    case 'extra_keys':
      draft.extraKeys = readExtraKeys(cursor);
      return;
    default:
      cursor.value();
  }
}

function readHashes(cursor: MsgpackCursor): Uint32Array {
  const count = cursor.array();
  const pairs = new Uint32Array(2 * count);
  for (let at = 0; at < count; at++) cursor.hash(pairs, 2 * at);
  return pairs;
}

/** Undefined when the entries are no ids: engines that speculate may send pairs of tokens. */
function readTokenIds(cursor: MsgpackCursor): Uint32Array | undefined {
  const count = cursor.array();
  const ids = new Uint32Array(count);
  let isPlain = true;
  for (let at = 0; at < count; at++) {
    if (cursor.isArray()) {
      cursor.value();
      isPlain = false;
    } else {
      ids[at] = cursor.integer();
    }
  }
  return isPlain ? ids : undefined;
}

function readExtraKeys(cursor: MsgpackCursor): (readonly unknown[] | null)[] {
  const count = cursor.array();
  return Array.from({ length: count }, () => {
    const keys = cursor.value();
    return Array.isArray(keys) ? keys : null;
  });
}

import type { InputItem } from './items-schema.ts';

/** Kinds of item that call a tool. */
export type CallKind = 'function_call' | 'custom_tool_call' | 'tool_search_call';

/** Kinds of item that an answer is made of. */
export type OutputKind = 'message' | 'reasoning' | 'compaction' | CallKind;

const PREFIXES = {
  message: 'msg',
  reasoning: 'rs',
  function_call: 'fc',
  custom_tool_call: 'ctc',
  function_call_output: 'fco',
  custom_tool_call_output: 'ctco',
  item_reference: 'ref',
  additional_tools: 'at',
  tool_search_call: 'tsc',
  tool_search_output: 'tso',
  compaction: 'cmp',
  compaction_trigger: 'cmpt',
  configuration_update: 'cfg',
} as const satisfies Record<InputItem['type'], string>;

const RESPONSE_ID = /^resp_([0-9a-f]{32})$/;
const ITEM_ID = /^[a-z]+_([0-9a-f]{32})[01][0-9a-f]{4,}$/;
const INDEX_DIGITS = 4;

/** `resp_<32 hex>` of a request id (UUID). */
export function responseIdOf(requestId: string): string {
  return `resp_${requestId.replaceAll('-', '')}`;
}

/** Where an item stands: among what went into a response, or among what came out. */
type ItemPlace = 'input' | 'output';

/** Id of an item. It names the response that the item belongs to, so that a reference is resolved by one look into the store. */
export function itemIdOf(kind: InputItem['type'], responseId: string, place: ItemPlace, index: number): string {
  const digits = `${place === 'input' ? 0 : 1}${index.toString(16).padStart(INDEX_DIGITS, '0')}`;
  return `${PREFIXES[kind]}_${RESPONSE_ID.exec(responseId)?.[1]}${digits}`;
}

/** The response that an item belongs to; undefined for ids that were not made here. */
export function responseIdOfItem(itemId: string): string | undefined {
  const hex = ITEM_ID.exec(itemId)?.[1];
  return hex === undefined ? undefined : `resp_${hex}`;
}

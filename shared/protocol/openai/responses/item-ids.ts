import type { InputItem } from './items-schema.ts';

/** Kinds of item that an answer is made of. */
export type OutputKind = 'message' | 'reasoning' | 'function_call' | 'custom_tool_call';

const PREFIXES = {
  message: 'msg',
  reasoning: 'rs',
  function_call: 'fc',
  custom_tool_call: 'ctc',
  function_call_output: 'fco',
  custom_tool_call_output: 'ctco',
  item_reference: 'ref',
} as const satisfies Record<InputItem['type'], string>;

const RESPONSE_ID = /^resp_([0-9a-f]{32})$/;
const ITEM_ID = /^[a-z]+_([0-9a-f]{32})[io][0-9a-f]+$/;

/** `resp_<32 hex>` of a request id (UUID). */
export function responseIdOf(requestId: string): string {
  return `resp_${requestId.replaceAll('-', '')}`;
}

/**
 * Id of an item. It names the response that the item belongs to, so that a reference is resolved by one look into the store.
 * @param place `i` = number `index` of the response's input, `o` = of its output
 */
export function itemIdOf(kind: InputItem['type'], responseId: string, place: 'i' | 'o', index: number): string {
  return `${PREFIXES[kind]}_${RESPONSE_ID.exec(responseId)?.[1]}${place}${index.toString(16)}`;
}

/** The response that an item belongs to; undefined for ids that were not made here. */
export function responseIdOfItem(itemId: string): string | undefined {
  const hex = ITEM_ID.exec(itemId)?.[1];
  return hex === undefined ? undefined : `resp_${hex}`;
}

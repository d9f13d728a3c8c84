import { itemIdOf } from './item-ids.ts';
import type { InputItem, MessageItem } from './items-schema.ts';

/** Items as a response's `input_items` lists them: each with an id and a status, texts of messages as parts. */
export function toListedItems(items: readonly InputItem[], responseId: string): readonly InputItem[] {
  return items.map((item, index) => {
    if (item.type === 'item_reference') return item;
    const named = { ...item, id: item.id ?? itemIdOf(item.type, responseId, 'input', index) };
    if (named.type === 'message') return { status: 'completed', ...named, content: toParts(named) };
    return named.type === 'reasoning' ? named : { status: 'completed', ...named };
  });
}

function toParts({ role, content }: MessageItem): MessageItem['content'] {
  if (typeof content !== 'string') return content;
  if (role !== 'assistant') return [{ type: 'input_text', text: content }];
  return [{ type: 'output_text', text: content, annotations: [], logprobs: [] }];
}

import { isRecord } from '../../../records/index.ts';
import { requireShapeAt, shapeError } from '../schema-errors.ts';
import { itemIdOf } from './item-ids.ts';
import { type InputItem, ITEM_SCHEMAS, isItemKind, kindOfItem, type MessageItem } from './items-schema.ts';

/**
 * Checks the items of `input`, each by the schema of its kind, and says the kind of those that left it out. A text is one
 * user message.
 * @throws ServeError 400 for kinds, roles and parts that are not known.
 */
export function parseItems(input: string | readonly unknown[]): readonly InputItem[] {
  if (typeof input === 'string') return [{ type: 'message', role: 'user', content: input }];
  return input.map(parseItem);
}

function parseItem(item: unknown, at: number): InputItem {
  const path = `input[${at}]`;
  if (!isRecord(item)) {
    throw shapeError('invalid_value', `${path}: expected an object`, path);
  }
  const kind = kindOfItem(item);
  if (!isItemKind(kind))
    throw shapeError('invalid_value', `${path}.type: unknown item type \`${kind}\``, `${path}.type`);
  const checked = requireShapeAt(ITEM_SCHEMAS[kind], item, ['input', at]);
  return (item.type === kind ? checked : { ...checked, type: kind }) as InputItem; // the schema of that very kind
}

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

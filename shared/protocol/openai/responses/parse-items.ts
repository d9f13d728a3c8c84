import { isRecord } from '../../../records/index.ts';
import { requireShapeAt, shapeError } from '../schema-errors.ts';
import { type InputItem, ITEM_SCHEMAS, isItemKind, kindOfItem } from './items-schema.ts';

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

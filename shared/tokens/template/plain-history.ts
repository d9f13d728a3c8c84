import { asRecord, type UnknownRecord } from '../../records/index.ts';
import { mergeTurns } from './normalize-messages.ts';

/** Stands first in a conversation whose beginning is gone, for templates that want the user to speak first. */
const CONTINUED = '(The conversation continues.)';

/** Whether a conversation has turns that were written by a model or a tool: data that a template may be too narrow for. */
export function hasHistory(messages: readonly UnknownRecord[]): boolean {
  return messages.some(({ role }) => role === 'assistant' || role === 'tool');
}

/**
 * The conversation as talk alone, in turns that alternate: calls and their results are told as text. For templates that refuse
 * a history as it is: they know no tools, or one call a turn, or a stricter order than what a conversation has become.
 */
export function plainHistory(messages: readonly UnknownRecord[]): readonly UnknownRecord[] {
  const names = new Map<unknown, string>();
  const talk = messages.flatMap((message): readonly UnknownRecord[] => {
    if (message.role === 'assistant') return [{ role: 'assistant', content: toldTurn(message, names) }];
    if (message.role !== 'tool') return [message];
    const name = names.get(message.tool_call_id);
    const head = name === undefined ? 'Result of a tool' : `Result of ${name}`;
    return [{ role: 'user', content: `${head}:\n${textOf(message.content)}` }];
  });
  const first = talk.findIndex(({ role }) => role !== 'system' && role !== 'developer');
  if (first < 0 || talk[first]?.role !== 'assistant') return mergeTurns(talk);
  return mergeTurns([...talk.slice(0, first), { role: 'user', content: CONTINUED }, ...talk.slice(first)]);
}

function toldTurn({ content, tool_calls: calls }: UnknownRecord, names: Map<unknown, string>): string {
  const lines = [textOf(content)];
  for (const call of Array.isArray(calls) ? calls : []) {
    const record = asRecord(call);
    const called = asRecord(record?.function);
    if (record === undefined || called === undefined) continue;
    names.set(record.id, String(called.name));
    lines.push(`Called ${String(called.name)} with ${String(called.arguments)}`);
  }
  return lines.filter((line) => line !== '').join('\n\n');
}

function textOf(content: unknown): string {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  return content.map((part) => String(asRecord(part)?.text ?? '')).join('\n');
}

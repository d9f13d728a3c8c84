import { asRecord, type UnknownRecord } from '../../records/index.ts';
import { mergeTurns } from './normalize-messages.ts';

/** First message of a conversation whose beginning is missing, for templates that require the user to speak first. */
const CONTINUED = '(The conversation continues.)';

/** Returns whether a conversation has turns of a model or a tool, which a template may be unable to express. */
export function hasHistory(messages: readonly UnknownRecord[]): boolean {
  return messages.some(({ role }) => role === 'assistant' || role === 'tool');
}

/**
 * Rewrites a conversation as plain text in alternating turns; calls and their results become text. For templates that
 * refuse a history as it is: they support no tools, or one call per turn, or require a stricter order than the
 * conversation has.
 */
export function plainHistory(messages: readonly UnknownRecord[]): readonly UnknownRecord[] {
  const names = new Map<unknown, string>();
  const talk = messages.flatMap((message): readonly UnknownRecord[] => {
    if (message.role === 'assistant') return [{ role: 'assistant', content: turnAsText(message, names) }];
    if (message.role !== 'tool') return [message];
    const name = names.get(message.tool_call_id);
    const head = name === undefined ? 'Result of a tool' : `Result of ${name}`;
    return [{ role: 'user', content: `${head}:\n${textOf(message.content)}` }];
  });
  const first = talk.findIndex(({ role }) => role !== 'system' && role !== 'developer');
  if (first < 0 || talk[first]?.role !== 'assistant') return mergeTurns(talk);
  return mergeTurns([...talk.slice(0, first), { role: 'user', content: CONTINUED }, ...talk.slice(first)]);
}

function turnAsText({ content, tool_calls: calls }: UnknownRecord, names: Map<unknown, string>): string {
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

import type { ChatMessage } from '../../protocol/generation/index.ts';
import { keyOfText, type RendezvousKey } from '../rendezvous.ts';

/** Letters that are read of each end of a text: two that differ only between them, at one length, are taken for one. */
const END_LETTERS = 2048;
/** Values that are read of one message; deeper ones than `DEPTH_MAX` are not. */
const VALUES_MAX = 64;
const DEPTH_MAX = 4;
/** Messages before the first of the user that are read. */
const MESSAGES_MAX = 8;

/**
 * Key of a conversation by how it began: all up to the user's first message, which every later turn repeats. Undefined where no
 * user has said anything. It takes the same time for messages of any length.
 */
export function conversationKey(messages: readonly ChatMessage[]): RendezvousKey | undefined {
  const user = messages.findIndex(({ role }) => role === 'user');
  if (user === -1) return undefined;
  const said: string[] = [];
  for (const { role, content } of messages.slice(Math.max(0, user + 1 - MESSAGES_MAX), user + 1)) {
    said.push(role);
    collect(content, said, said.length + VALUES_MAX, 0);
  }
  return keyOfText(said.join('\n'));
}

/** Adds the texts of a message's content, a sample of the long ones. */
function collect(value: unknown, said: string[], countMax: number, depth: number): void {
  if (said.length >= countMax || depth > DEPTH_MAX) return;
  if (typeof value === 'string') said.push(sampleOf(value));
  else if (typeof value === 'number') said.push(`${value}`);
  else if (Array.isArray(value))
    for (const part of value.slice(0, VALUES_MAX)) collect(part, said, countMax, depth + 1);
  else if (typeof value === 'object' && value !== null) {
    for (const part of Object.values(value)) collect(part, said, countMax, depth + 1);
  }
}

function sampleOf(text: string): string {
  return text.length <= 2 * END_LETTERS
    ? text
    : `${text.length} ${text.slice(0, END_LETTERS)} ${text.slice(-END_LETTERS)}`;
}

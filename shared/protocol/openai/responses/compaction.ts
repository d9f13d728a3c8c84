import { invalidValue } from '../field-checks.ts';

const PREFIX = 'stator.v1.';

/**
 * A summary as the `encrypted_content` of a compaction item. The client keeps it and gives it back; it holds nothing but
 * what the model said to that very client, so that it is written down plainly and no key has to be shared between edges.
 */
export function sealSummary(summary: string): string {
  return PREFIX + Buffer.from(summary).toString('base64url');
}

/** The summary in a compaction item. @throws ServeError `invalid_value` for one that was not made here */
export function openSummary(content: string, param: string): string {
  if (content.startsWith(PREFIX)) return Buffer.from(content.slice(PREFIX.length), 'base64url').toString();
  throw invalidValue(`${param}: the compaction was not made by this server and cannot be read`, param);
}

/** How a summary stands in the prompt of what follows. */
export function summaryMessage(summary: string): string {
  return `Summary of the conversation so far:\n\n${summary}`;
}

/** What the model is told when a conversation is to be compacted. */
export const COMPACTION_INSTRUCTION =
  'Write a summary of this conversation for yourself: it will replace everything above, and you will continue from it. ' +
  'Keep what the user asked for and every constraint, decisions and their reasons, what was done and with which results ' +
  '(names of files, commands, values, errors), what is still open, and the next step. Call no tools. Answer with the ' +
  'summary alone.';

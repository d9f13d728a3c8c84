import type { LambdaRequest } from './lambda-events.ts';

/** How far into a body one looks for where the conversation begins, in characters. */
const LOOK_LENGTH = 64 * 1024;
const KEY_LENGTH = 512;
/** Words before what the client says first, in the bodies of all dialects. */
const OPENINGS = ['"user"', '"prompt"', '"input"'] as const;
/** Less than this says nothing of the conversation: what is said stands before its role. */
const TELLING_LENGTH = 16;

/**
 * What tells one conversation from another, of the body of a request that nobody has parsed yet: the beginning of what its user
 * says first, which stays the same in each further turn. A system prompt that many share stands before it. Only a hint of
 * which part of a large fleet to look at: any text will do, and the same for the same conversation does better. Undefined for a
 * request without a body.
 */
export function shardKeyOf({ body, isBase64 }: Pick<LambdaRequest, 'body' | 'isBase64'>): string | undefined {
  if (body === '') return undefined;
  const start = body.slice(0, LOOK_LENGTH);
  const head = isBase64 ? Buffer.from(start, 'base64').toString() : start;
  const at = OPENINGS.map((opening) => head.indexOf(opening)).find((found) => found >= 0) ?? 0;
  const after = head.slice(at, at + KEY_LENGTH);
  const end = after.indexOf('}');
  const said = end < 0 ? after : after.slice(0, end);
  return said.length >= TELLING_LENGTH ? said : head.slice(Math.max(0, at - KEY_LENGTH), at);
}

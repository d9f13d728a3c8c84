import type { JsonBody } from '../json-body.ts';
import { requireShape } from '../schema-errors.ts';
import { type CompactBody, compactSchema } from './body-schema.ts';
import type { ParsedResponses } from './decode-responses.ts';
import type { InputItem } from './items-schema.ts';
import { parseItems } from './parse-items.ts';

/** Ends a conversation that is to be compacted. */
export const COMPACTION_TRIGGER: InputItem = Object.freeze({ type: 'compaction_trigger' });

/** Root keys that mean something to the route, or are published and harmless. */
export const COMPACT_KEYS: ReadonlySet<string> = new Set(Object.keys(compactSchema.shape));

/** Checks the types of a body that asks for a conversation to be compacted. @throws ServeError 400; see `requireShape`. */
export function parseCompactBody(json: JsonBody): ParsedResponses {
  const body = requireShape(compactSchema, json);
  return { body: responsesBodyOf(body), items: parseItems(body.input ?? []) };
}

/** The body that asks for the same answer of `POST /v1/responses`, apart from its items. */
function responsesBodyOf({ model, instructions, previous_response_id }: CompactBody): ParsedResponses['body'] {
  return { model, instructions, previous_response_id, input: [], store: false };
}

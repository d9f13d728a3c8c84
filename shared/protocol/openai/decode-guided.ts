import type { GuidedDecoding } from '../generation/index.ts';
import type { ChatBody } from './chat-schema.ts';
import type { CompletionsBody } from './completions-schema.ts';
import { invalidValue } from './field-checks.ts';
import type { Nvext } from './nvext-schema.ts';

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

const CONSTRAINTS = ['json', 'regex', 'choice', 'grammar'] as const;

/**
 * The constraint on the output: `guided_*` fields, which beat `response_format`.
 * @throws ServeError `invalid_value` when more than one is set.
 */
export function decodeGuided(body: ChatBody | CompletionsBody, nvext: Nvext): GuidedDecoding | undefined {
  const guided: Mutable<GuidedDecoding> = {};
  const json = body.guided_json ?? nvext.guided_json ?? schemaOfResponseFormat(body);
  const regex = body.guided_regex ?? nvext.guided_regex;
  const choice = body.guided_choice ?? nvext.guided_choice;
  const grammar = body.guided_grammar ?? nvext.guided_grammar;
  if (json != null) guided.json = json;
  if (regex != null) guided.regex = regex;
  if (choice != null) guided.choice = choice;
  if (grammar != null) guided.grammar = grammar;
  const received = CONSTRAINTS.filter((kind) => guided[kind] !== undefined);
  if (received.length === 0) return undefined; // a backend or a whitespace pattern alone constrains nothing
  if (received.length > 1) {
    const message = `Only one guided-decoding constraint can be set; received: ${received.join(', ')}`;
    throw invalidValue(message, `guided_${received[1]}`);
  }
  const backend = body.guided_decoding_backend ?? nvext.guided_decoding_backend;
  const whitespace = body.guided_whitespace_pattern ?? nvext.guided_whitespace_pattern;
  if (backend != null) guided.backend = backend;
  if (whitespace != null) guided.whitespace_pattern = whitespace;
  return guided;
}

function schemaOfResponseFormat(body: ChatBody | CompletionsBody): unknown {
  const format = (body as ChatBody).response_format; // refused on completions as an unknown key
  if (format?.type === 'json_object') return { type: 'object' };
  return format?.type === 'json_schema' ? format.json_schema.schema : undefined;
}

import * as z from 'zod';
import type { JsonObject } from './dynamo-http/records.ts';

/*
 * Rules of Open Responses (2026-04-24) for what a server sends: fields that an object must have, their types, and the
 * order of events. Objects may have more fields. One name differs: the text of reasoning grows by
 * `response.reasoning_text` events, as OpenAI names them and as its clients and the AI SDK read them. Open Responses
 * writes `response.reasoning`.
 */

const text = z.string();
const textOrNull = z.string().nullable();
const count = z.int().min(0);
const status = z.enum(['in_progress', 'completed', 'incomplete']);

const namedLogprob = z.object({ token: text, logprob: z.number(), bytes: z.array(count) });
const logprob = namedLogprob.extend({ top_logprobs: z.array(namedLogprob) });

const textPart = z.object({
  type: z.literal('output_text'),
  text,
  annotations: z.array(z.unknown()),
  logprobs: z.array(logprob).optional(),
});
const reasoningPart = z.object({ type: z.literal('reasoning_text'), text });
const summaryPart = z.object({ type: z.literal('summary_text'), text });

const item = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('message'),
    id: text,
    status,
    role: z.literal('assistant'),
    content: z.array(textPart),
  }),
  z.object({
    type: z.literal('reasoning'),
    id: text,
    status,
    summary: z.array(summaryPart),
    content: z.array(reasoningPart).optional(),
  }),
  z.object({ type: z.literal('function_call'), id: text, status, call_id: text, name: text, arguments: text }),
  z.object({ type: z.literal('compaction'), id: text, encrypted_content: text }),
]);

const tool = z.object({
  type: z.literal('function'),
  name: text,
  description: textOrNull,
  parameters: z.record(text, z.unknown()).nullable(),
  strict: z.boolean().nullable(),
});
const mode = z.enum(['none', 'auto', 'required']);
const named = z.object({ type: z.literal('function'), name: text });
const toolChoice = z.union([
  mode,
  named,
  z.object({ type: z.literal('allowed_tools'), tools: z.array(named).min(1), mode }),
]);

const format = z.discriminatedUnion('type', [
  z.object({ type: z.literal('text') }),
  z.object({ type: z.literal('json_object') }),
  z.object({
    type: z.literal('json_schema'),
    name: text,
    description: textOrNull,
    schema: z.record(text, z.unknown()),
    strict: z.boolean(),
  }),
]);

const usage = z.object({
  input_tokens: count,
  output_tokens: count,
  total_tokens: count,
  input_tokens_details: z.object({ cached_tokens: count }),
  output_tokens_details: z.object({ reasoning_tokens: count }),
});

/** A response, whole or in progress. */
export const responseRules = z.object({
  id: text,
  object: z.literal('response'),
  created_at: count,
  completed_at: count.nullable(),
  status: z.enum(['in_progress', 'completed', 'incomplete', 'failed', 'cancelled']),
  incomplete_details: z.object({ reason: text }).nullable(),
  model: text,
  previous_response_id: textOrNull,
  instructions: textOrNull,
  output: z.array(item),
  error: z.object({ code: text, message: text }).nullable(),
  tools: z.array(tool),
  tool_choice: toolChoice,
  truncation: z.enum(['auto', 'disabled']),
  parallel_tool_calls: z.boolean(),
  text: z.object({ format, verbosity: z.enum(['low', 'medium', 'high']).optional() }),
  top_p: z.number(),
  presence_penalty: z.number(),
  frequency_penalty: z.number(),
  top_logprobs: count,
  temperature: z.number(),
  reasoning: z.object({ effort: textOrNull, summary: textOrNull }).nullable(),
  usage: usage.nullable(),
  max_output_tokens: count.nullable(),
  max_tool_calls: count.nullable(),
  store: z.boolean(),
  background: z.boolean(),
  service_tier: text,
  metadata: z.record(text, z.unknown()),
  safety_identifier: textOrNull,
  prompt_cache_key: textOrNull,
});

const withResponse = { response: responseRules };
const ofItem = { output_index: count, item };
const inItem = { item_id: text, output_index: count };
const inContent = { ...inItem, content_index: count };
const inSummary = { ...inItem, summary_index: count };
const contentPart = z.discriminatedUnion('type', [textPart, reasoningPart]);

const EVENTS = {
  'response.created': withResponse,
  'response.in_progress': withResponse,
  'response.completed': withResponse,
  'response.incomplete': withResponse,
  'response.failed': withResponse,
  'response.output_item.added': ofItem,
  'response.output_item.done': ofItem,
  'response.content_part.added': { ...inContent, part: contentPart },
  'response.content_part.done': { ...inContent, part: contentPart },
  'response.output_text.delta': { ...inContent, delta: text, logprobs: z.array(logprob).optional() },
  'response.output_text.done': { ...inContent, text, logprobs: z.array(logprob).optional() },
  'response.reasoning_text.delta': { ...inContent, delta: text },
  'response.reasoning_text.done': { ...inContent, text },
  'response.reasoning_summary_part.added': { ...inSummary, part: summaryPart },
  'response.reasoning_summary_part.done': { ...inSummary, part: summaryPart },
  'response.reasoning_summary_text.delta': { ...inSummary, delta: text },
  'response.reasoning_summary_text.done': { ...inSummary, text },
  'response.function_call_arguments.delta': { ...inItem, delta: text },
  'response.function_call_arguments.done': { ...inItem, arguments: text },
} as const satisfies Readonly<Record<string, z.ZodRawShape>>;

/** Returns what is wrong with a value by the rules of its kind; nothing if it obeys them. */
export function faultsOf(rules: z.ZodType, value: unknown): readonly string[] {
  const read = rules.safeParse(value);
  return read.success ? [] : read.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`);
}

/** Returns what is wrong with the events of one stream: their fields, and their order. */
export function faultsOfEvents(events: readonly JsonObject[]): readonly string[] {
  const faults = events.flatMap((event) => {
    const shape = EVENTS[event.type as keyof typeof EVENTS] as z.ZodRawShape | undefined;
    if (shape === undefined) return [`unknown event ${String(event.type)}`];
    const rules = z.object({ type: text, sequence_number: count, ...shape });
    return faultsOf(rules, event).map((fault) => `${String(event.type)}: ${fault}`);
  });
  return [...faults, ...faultsOfOrder(events)];
}

const FINAL = /^response\.(?:completed|incomplete|failed)$/;
/** Container that must be open for a text to grow in it, by the first words of the event. */
const CONTAINERS: Readonly<Record<string, string>> = {
  output_text: 'content_part',
  reasoning_text: 'content_part',
  reasoning_summary_text: 'reasoning_summary_part',
  function_call_arguments: 'output_item',
};

/**
 * Returns what is wrong with the order of events: what opens must close once, what grows must be open, and a text at
 * its end must be the sum of its deltas.
 */
function faultsOfOrder(events: readonly JsonObject[]): readonly string[] {
  const faults: string[] = [];
  const types = events.map(({ type }) => String(type));
  if (types.slice(0, 2).join() !== 'response.created,response.in_progress') faults.push(`begins with ${types[0]}`);
  if (types.findIndex((type) => FINAL.test(type)) !== types.length - 1) faults.push(`ends with ${types.at(-1)}`);
  const open = new Set<string>();
  const grown = new Map<string, string>();
  for (const event of events) {
    const [, name = '', change] = String(event.type).split('.');
    const container = CONTAINERS[name];
    if (change === undefined) continue;
    const at = placeOf(container ?? name, event);
    const wanted = container === undefined && change === 'added' ? !open.has(at) : open.has(at);
    if (!wanted) faults.push(`${String(event.type)} at ${at}`);
    if (container === undefined) {
      if (change === 'added') open.add(at);
      else open.delete(at);
      continue;
    }
    const key = `${name} ${at}`;
    if (change === 'delta') grown.set(key, (grown.get(key) ?? '') + String(event.delta));
    else if ((event.text ?? event.arguments) !== (grown.get(key) ?? '')) faults.push(`${key} is not its deltas`);
  }
  for (const at of open) faults.push(`${at} stays open`);
  return faults;
}

/** Returns the name of an item or of one of its parts. */
function placeOf(container: string, event: JsonObject): string {
  const id = event.item_id ?? (event.item as JsonObject | undefined)?.id;
  const part = container === 'output_item' ? '' : `/${String(event.content_index ?? event.summary_index)}`;
  return `${container} ${String(id)}${part}`;
}

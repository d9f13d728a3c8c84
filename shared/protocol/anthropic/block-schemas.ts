import * as z from 'zod';
import { atMost } from '../openai/shape-check.ts';
import { showsKinds } from '../openai/shown-kinds.ts';

/** Content blocks that are checked if they are new, i.e. not part of the history. */
export const NEW_BLOCKS = {
  text: z.looseObject({ text: z.string() }),
  image: z.looseObject({
    source: z.discriminatedUnion('type', [
      z.looseObject({ type: z.literal('base64'), media_type: z.string(), data: z.string() }),
      z.looseObject({ type: z.literal('url'), url: z.string() }),
    ]),
  }),
  document: z.looseObject({
    // Other types are refused later, with a message that says what to send instead.
    source: z.looseObject({ type: z.string().meta({ enum: ['text', 'base64', 'content'] }) }),
  }),
  search_result: z.looseObject({ content: z.array(z.looseObject({ type: z.literal('text'), text: z.string() })) }),
} as const;

/** Fields that a model or another server wrote: they are read as they come. */
const writtenText = z.unknown().meta({ type: 'string' }).optional();
const written = z.unknown().optional();

/** Content block of any kind: the fields of a kind are checked when it is translated. */
const anyBlock = showsKinds(z.looseObject({ type: z.string() }), {
  kinds: () => [...said(), ...ofModel(), toolResult],
  others:
    'Any other kind. In a turn that the model has answered already it is read as far as it has text, or left out. ' +
    'In one that it has not, calls and results of tools that a server ran (`*_tool_use`, `*_tool_result`) are read, and the rest is refused.',
});

/** Text, or content blocks. */
export const blockContent = z.union([z.string(), atMost(z.array(anyBlock), 'parts')]);

/** Earlier content of the model, which is accepted as it comes, whatever it is. */
export const saidByModel = showsKinds(z.unknown(), {
  kinds: () => [blockContent],
  others: 'Anything else is read as far as it has text.',
}).optional();

function said(): readonly z.ZodType[] {
  return Object.entries(NEW_BLOCKS).map(([type, block]) => z.looseObject({ type: z.literal(type), ...block.shape }));
}

function ofModel(): readonly z.ZodType[] {
  return [
    z.looseObject({ type: z.literal('tool_use'), id: writtenText, name: writtenText, input: written }),
    z.looseObject({ type: z.literal('thinking'), thinking: writtenText, signature: writtenText }),
    z.looseObject({ type: z.literal('redacted_thinking'), data: writtenText }),
  ];
}

const toolResult = z.looseObject({
  type: z.literal('tool_result'),
  tool_use_id: writtenText,
  content: showsKinds(z.unknown(), {
    kinds: () => [z.string(), z.array(z.union(said() as [z.ZodType, z.ZodType]))],
    others: 'Blocks of other kinds are read as far as they have text.',
  }).optional(),
  is_error: z.unknown().meta({ type: 'boolean' }).optional(),
});

import { describe, expect, it } from 'vitest';
import { preprocess } from '../../../../shared/pipeline/prompt/preprocess.ts';
import {
  type ChatMessage,
  decodeChat,
  type GenerationRequest,
  parseChatBody,
} from '../../../../shared/protocol/index.ts';
import { hashBlocks, type LoadedModel } from '../../../../shared/tokens/index.ts';
import { contextWith } from '../../protocol/decode-context.ts';
import { letterModel, model, promptTools, request } from '../fixtures.ts';

const pool = { key: 'sum', role: 'aggregated', blockSizeTokens: 4 } as const;
const passing = model({ passesChats: true, pool });

/** Writes the texts of a chat one after the other. */
const loaded = {
  ...letterModel,
  chatTemplate: {
    render: ({ messages }: { messages: readonly { content: string }[] }) =>
      messages.map((each) => each.content).join(''),
  },
} as unknown as LoadedModel;

function chat(prompt: object = {}, body: object = {}, more: Partial<GenerationRequest> = {}): GenerationRequest {
  const messages: readonly ChatMessage[] = [{ role: 'user', content: 'abcdefgh' }];
  return request({
    endpoint: 'chat_completions',
    prompt: { kind: 'chat', messages, ...prompt },
    body: { model: 'letters', messages, ...body },
    ...more,
  });
}

async function sent(asked: GenerationRequest, served = passing, tools = promptTools()) {
  const { request: ready, media } = await preprocess(asked, served, loaded, tools);
  if (ready.input.kind !== 'text') throw new Error('it went as tokens');
  const { model: _model, messages: _messages, ...body } = JSON.parse(JSON.stringify(ready.input.body));
  return { body: body as Record<string, unknown>, media };
}

const tools = [{ type: 'function', function: { name: 'f' } }];

describe('a chat that its engine renders', () => {
  it('goes as a body, and is routed by the blocks of the same chat in tokens', async () => {
    const { body, media } = await sent(chat({}, { temperature: 0.5 }));
    expect(body).toEqual({ temperature: 0.5 });
    const tokenIds = letterModel.tokenizer.encode('abcdefgh') as Uint32Array;
    expect(media?.hashedFor(pool, {})).toEqual({ tokens: 8, hashes: hashBlocks(tokenIds, { blockSizeTokens: 4 }) });
    expect([media?.home, media?.asksForTokens, media?.plainTokens]).toEqual([undefined, false, 8]);
  });

  it('is routed by load where it cannot be rendered or loaded here', async () => {
    const unrendered = { ...loaded, chatTemplate: undefined } as LoadedModel;
    for (const known of [unrendered, undefined]) {
      const { request: ready, media } = await preprocess(chat(), passing, known, promptTools());
      expect(ready.input.kind).toBe('text');
      expect([media?.hashedFor(pool, {}).tokens ?? 0, media?.plainTokens]).toEqual([0, undefined]);
    }
  });

  const documents = [{ text: 'a' }];
  const others = [{ text: 'b' }];
  it.each([
    [
      'but not twice',
      { reasoning_effort: 'none', documents },
      { reasoning_effort: 'none', documents, chat_template_kwargs: { enable_thinking: false } },
    ],
    [
      'wherever the client has written them',
      { chat_template_kwargs: { reasoning_effort: 'low', documents, custom: 1 }, thinking: true },
      {
        chat_template_kwargs: {
          ...{ reasoning_effort: 'low', documents, custom: 1 },
          ...{ thinking_mode: 'enabled', thinking: true, enable_thinking: true },
        },
        thinking: true,
      },
    ],
    [
      'under the name that engines know',
      { chat_template_args: { documents } },
      { chat_template_args: { documents }, chat_template_kwargs: { documents } },
    ],
    [
      'with the value that counts here',
      { documents, chat_template_kwargs: { documents: others, custom: 1 } },
      { documents, chat_template_kwargs: { documents: others, custom: 1 } },
    ],
  ])('gets the variables of the template with which it is rendered here, %s', async (_, given, expected) => {
    const value = { model: 'letters', messages: [{ role: 'user', content: 'abcdefgh' }], ...given };
    const { request: asked } = decodeChat(parseChatBody({ value }), contextWith());
    expect((await sent(asked)).body).toEqual(expected);
  });

  it('has its tools, unless they are hidden from the template', async () => {
    const choice = { tools, tool_choice: 'none' };
    expect((await sent(chat({ tools, toolChoice: 'none' }, choice))).body).toEqual(choice);
    expect((await sent(chat({ toolChoice: 'none' }, choice))).body).toEqual({});
  });

  it('asks for at most the tokens that the context leaves, or for those of the deployment', async () => {
    const asks = async (body: object, max_tokens?: number, maxTokensDefault?: number) => {
      const stop = max_tokens === undefined ? {} : { max_tokens };
      return (await sent(chat({}, body, { stop }), passing, { ...promptTools(), maxTokensDefault })).body;
    };
    expect(await asks({})).toEqual({});
    expect(await asks({ max_tokens: 92 }, 92)).toEqual({ max_tokens: 92 });
    expect(await asks({ max_tokens: 93 }, 93)).toEqual({ max_tokens: 92 });
    expect(await asks({ max_completion_tokens: 500 }, 500)).toEqual({ max_completion_tokens: 92 });
    expect(await asks({}, undefined, 20)).toEqual({ max_completion_tokens: 20 });
    const unknown = model({ passesChats: true, pool, contextLength: 0 });
    const stop = { max_tokens: 500 };
    expect((await sent(chat({}, { max_tokens: 500 }, { stop }), unknown)).body).toEqual({ max_tokens: 500 });
  });
});

it('everything but a chat goes as tokens', async () => {
  for (const asked of [request(), request({ prompt: { kind: 'tokens', tokenIds: [1, 2] } })]) {
    const { request: ready } = await preprocess(asked, passing, loaded, promptTools());
    expect(ready.input.kind).toBe('tokens');
  }
});

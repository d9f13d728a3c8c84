import { describe, expect, it } from 'vitest';
import { preprocess } from '../../../../shared/pipeline/prompt/preprocess.ts';
import type { GenerationRequest } from '../../../../shared/protocol/index.ts';
import type { LoadedModel, Tokenizer } from '../../../../shared/tokens/index.ts';
import { compileChatTemplate } from '../../../../shared/tokens/template/chat-template.ts';
import { letterModel, letterTokenizer, model, preprocessed, promptTools, request } from '../fixtures.ts';

type ChatPrompt = Extract<GenerationRequest['prompt'], { kind: 'chat' }>;

const raw = (text: string, more: Partial<GenerationRequest> = {}) =>
  request({ prompt: { kind: 'raw', text }, ...more });

/** Letters, encoded in stretches of 1,000. */
function cutModel(more: Partial<Tokenizer> = {}): LoadedModel {
  const cut = (text: string) =>
    Array.from({ length: Math.ceil(text.length / 1000) }, (_, at) => Math.min((at + 1) * 1000, text.length));
  const recipe = { kind: 'general', path: '/model/tokenizer.json' } as const;
  return { ...letterModel, tokenizer: { ...letterTokenizer, cut, recipe, ...more } };
}

describe('what a worker gets of a request', () => {
  it('includes latency targets and the options of a multimodal processor', async () => {
    const more = { router: { ttft_target: 100, itl_target: 10 }, mmProcessorKwargs: { fps: 2 } };
    expect((await preprocessed(raw('abc', more), model(), letterModel)).request).toMatchObject(more);
    const sent = (await preprocessed(raw('abc'), model(), letterModel)).request;
    expect(Object.keys(sent)).not.toContain('router');
    expect(Object.keys(sent)).not.toContain('mmProcessorKwargs');
  });

  it.each(['Tokens', 'Text'] as const)(
    'names the model as its workers do, whatever clients call it: %s',
    async (input) => {
      const named = model();
      const renamed = { ...named, name: 'ours', primaryName: 'ours', card: { ...named.card, model_input: input } };
      const loaded = input === 'Tokens' ? letterModel : undefined;
      const sent = (await preprocess(raw('abc', { body: { model: 'ours' } }), renamed, loaded, promptTools())).request;
      expect(sent.model).toBe('letters');
      if (input === 'Text') expect(sent.input).toMatchObject({ body: { model: 'letters' } });
    },
  );
});

describe('media for a model whose template knows only text', () => {
  const blind = { ...letterModel, chatTemplate: compileChatTemplate("{{ 'user ' + messages[0].content }}") };
  const chat = (content: unknown) => {
    const messages = [{ role: 'user', content }] as ChatPrompt['messages'];
    return request({ prompt: { kind: 'chat', messages, addGenerationPrompt: true } as ChatPrompt });
  };

  it('are refused with a hint, and so are no other messages', async () => {
    const image = { type: 'image_url', image_url: { url: 'https://example.com/a.png' } };
    await expect(preprocessed(chat([image]), model(), blind)).rejects.toThrow(
      expect.objectContaining({
        code: 'invalid_value',
        message: expect.stringMatching(
          /refuses these messages: .*\. They hold media, which model `.+` may not take: it is probably not a multimodal model$/,
        ),
        param: 'messages',
      }),
    );
    expect((await preprocessed(chat('abc'), model(), blind)).promptTokens).toBe('user abc'.length);
    await expect(preprocessed(chat([{ type: 'text', text: 'abc' }]), model(), blind)).resolves.toBeDefined();
  });

  it('do not fail the turns after them: a text takes the place of those that the user sent earlier', async () => {
    const all = "{% for message in messages %}{{ message.role + ' ' + message.content + ';' }}{% endfor %}";
    const reader = { ...letterModel, chatTemplate: compileChatTemplate(all) };
    const image = { type: 'image_url', image_url: { url: 'https://example.com/a.png' } };
    const ask = (...messages: readonly object[]) =>
      request({ prompt: { kind: 'chat', messages: messages as ChatPrompt['messages'] } });
    const first = { role: 'user', content: [{ type: 'text', text: 'look' }, image] };
    const next = { role: 'user', content: 'go on' };
    const { request: sent, formattedPrompt } = await preprocessed(
      ask(first, next),
      model({ contextLength: 0 }),
      reader,
    );
    expect(formattedPrompt).toBe('user look\n[a picture was left out: this model takes text only];user go on;');
    expect(sent).not.toHaveProperty('multiModalData');
    const tool = { role: 'tool', tool_call_id: 'c', content: 'ok' };
    const shown = await preprocessed(
      ask(first, tool, { role: 'user', content: [image] }),
      model({ contextLength: 0 }),
      reader,
    );
    expect(shown.formattedPrompt).toMatch(/;tool ok;user \[a picture was left out: [^;]*;$/);
    await expect(preprocessed(ask(next, first), model(), reader)).rejects.toThrow(/not a multimodal model/);
    await expect(preprocessed(ask(first, first), model(), reader)).rejects.toThrow(/not a multimodal model/);
  });
});

describe('a prompt that does not fit', () => {
  const refusal = (length: string, param = 'prompt') => ({
    code: 'context_length_exceeded',
    message:
      `This model's maximum context length is 100 tokens. However, your prompt resulted in ${length} tokens. ` +
      'Please reduce the length of the prompt.',
    param,
  });

  it('is refused with its length', async () => {
    await expect(preprocessed(raw('a'.repeat(100)), model(), letterModel)).rejects.toThrow(
      expect.objectContaining(refusal('100')),
    );
    expect((await preprocessed(raw('a'.repeat(99)), model(), letterModel)).request.stop.max_tokens).toBe(1);
  });

  it.each([
    ['chat_completions', 'messages', /maximum context length is 100 tokens.* your messages resulted in 100 tokens/],
    ['anthropic_messages', 'messages', /^prompt is too long: 100 tokens > 100 maximum$/],
    ['responses', 'input', /maximum context length is 100 tokens.* your input resulted in 100 tokens/],
  ] as const)('names the field of %s that held it, in the words of its API', async (endpoint, param, words) => {
    const spoken = { ...letterModel, chatTemplate: compileChatTemplate('{{ messages[0].content }}') };
    const messages = [{ role: 'user', content: 'a'.repeat(100) }];
    const asked = request({ endpoint, prompt: { kind: 'chat', messages } });
    await expect(preprocessed(asked, model(), spoken)).rejects.toThrow(
      expect.objectContaining({ code: 'context_length_exceeded', message: expect.stringMatching(words), param }),
    );
    await expect(preprocessed(asked, model(), letterModel)).rejects.toThrow(
      expect.objectContaining({ code: 'invalid_value', param }), // no template
    );
  });

  it.each([
    ['chat_completions', 'nvext.token_data'],
    ['responses', 'nvext.token_data'],
    ['completions', 'prompt'],
    ['embeddings', 'input'],
  ] as const)('names the field of %s that held its token ids', async (endpoint, param) => {
    const asked = request({ endpoint, prompt: { kind: 'tokens', tokenIds: Array(100).fill(1) } });
    await expect(preprocessed(asked, model(), letterModel)).rejects.toThrow(
      expect.objectContaining({ code: 'context_length_exceeded', param }),
    );
  });

  it('is not even encoded when it is too long whatever its tokens are', async () => {
    const encode = () => {
      throw new Error('encoded');
    };
    const loaded = cutModel({ encode, fewestTokens: (units) => Math.ceil(units / 2) });
    const ask = (text: string) => preprocessed(raw(text), model(), loaded);
    await expect(ask('a'.repeat(199))).rejects.toThrow(expect.objectContaining(refusal('at least 100')));
    await expect(ask('a'.repeat(198))).rejects.toThrow('encoded');
    await expect(preprocessed(raw('a'.repeat(1000)), model({ contextLength: 0 }), loaded)).rejects.toThrow('encoded');
  });

  it('is encoded no further than the context reaches', async () => {
    let encoded = 0;
    const encode = (text: string) => {
      encoded += text.length;
      return letterTokenizer.encode(text);
    };
    const asked = preprocess(raw('a'.repeat(100_000)), model(), cutModel({ encode }), promptTools());
    expect(asked).toBeInstanceOf(Promise);
    await expect(asked).rejects.toMatchObject(refusal('at least 1000'));
    expect(encoded).toBe(1000);
  });
});

describe('a long prompt', () => {
  it('is ready later, and the same', async () => {
    const text = 'abcde'.repeat(8000);
    const served = model({ contextLength: 100_000 });
    const asked = preprocess(raw(text), served, cutModel(), promptTools());
    expect(asked).toBeInstanceOf(Promise);
    expect(await asked).toEqual(await preprocessed(raw(text), served, letterModel));
  });

  it('is given up with its client', async () => {
    const client = new AbortController();
    client.abort(new Error('gone'));
    const served = model({ contextLength: 0 });
    const asked = preprocess(raw('a'.repeat(40_000)), served, cutModel(), promptTools(), client.signal);
    await expect(asked).rejects.toThrow('gone');
  });
});

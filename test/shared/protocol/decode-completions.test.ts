import { describe, expect, it } from 'vitest';
import { decodeCompletions, parseCompletionsBody, parseJsonBody } from '../../../shared/protocol/index.ts';
import { contextWith } from './decode-context.ts';

function decode(fields: object) {
  const body = parseJsonBody(Buffer.from(JSON.stringify({ model: 'm', prompt: 'p', ...fields })));
  return decodeCompletions(parseCompletionsBody(body), contextWith());
}

describe('decodeCompletions', () => {
  it.each([
    ['a string', 'x', [{ kind: 'raw', text: 'x' }]],
    ['one string in a list', ['x'], [{ kind: 'raw', text: 'x' }]],
    [
      'strings',
      ['x', 'y'],
      [
        { kind: 'raw', text: 'x' },
        { kind: 'raw', text: 'y' },
      ],
    ],
    ['token ids', [1, 2], [{ kind: 'tokens', tokenIds: [1, 2] }]],
    [
      'lists of token ids',
      [[1], [2, 3]],
      [
        { kind: 'tokens', tokenIds: [1] },
        { kind: 'tokens', tokenIds: [2, 3] },
      ],
    ],
  ])('makes one request a prompt of %s', (_what, prompt, prompts) => {
    const { requests, id } = decode({ prompt });
    expect(requests.map((request) => request.prompt)).toEqual(prompts);
    const ids = prompts.length === 1 ? [id] : prompts.map((_, at) => `${id}-${at}`);
    expect(requests.map((request) => request.id)).toEqual(ids);
  });

  it.each([
    [{ prompt: '' }, 'prompt'],
    [{ prompt: [] }, 'prompt'],
    [{ prompt: ['a', ''] }, 'prompt[1]'],
    [{ prompt: [[1], []] }, 'prompt[1]'],
    [{ prompt: ['a', 1] }, 'prompt[1]'],
    [{ prompt: [-1] }, 'prompt[0]'],
    [{ prompt: undefined }, 'prompt'],
    [{ prompt: Array(65).fill('a'), n: 2 }, 'n'],
    [{ best_of: 21 }, 'best_of'],
    [{ best_of: 1, n: 2 }, 'best_of'],
    [{ logprobs: 6 }, 'logprobs'],
    [{ suffix: 'x' }, 'suffix'],
    [{ prompt_embeds: '!!!' }, 'prompt_embeds'],
    [{ prompt_embeds: Buffer.alloc(99).toString('base64') }, 'prompt_embeds'],
    [{ prompt_embeds: Buffer.alloc(10 * 1024 * 1024 + 1).toString('base64') }, 'prompt_embeds'],
    [{ messages: [] }, 'messages'],
    [{ max_completion_tokens: 1 }, 'max_completion_tokens'],
    [{ prompt_embeds: 'A'.repeat(136), echo: true }, 'echo'],
  ])('refuses %j', (fields, param) => {
    expect(() => decode(fields)).toThrow(expect.objectContaining({ param }));
  });

  it('does not look at the prompt beside embeddings', () => {
    const prompt_embeds = Buffer.alloc(100).toString('base64');
    expect(decode({ prompt: '', prompt_embeds }).requests[0]?.prompt).toEqual({ kind: 'embeds', data: prompt_embeds });
  });

  it('accepts up to 128 choices and an empty suffix', () => {
    expect(decode({ prompt: Array(64).fill('a'), n: 2, suffix: '' }).requests).toHaveLength(64);
  });

  it('asks for what echo needs and remembers the text', () => {
    const decoded = decode({ prompt: ['a', 'b'], echo: true });
    expect(decoded.echoes).toEqual(['a', 'b']);
    expect(decode({ prompt: [[1, 2], [3]], echo: true }).echoes).toEqual([[1, 2], [3]]);
    expect(decoded.requests[0]?.output.prompt_logprobs).toBe(1);
  });
});

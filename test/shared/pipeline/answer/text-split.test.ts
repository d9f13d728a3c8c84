import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { seededRandom } from '../../../../shared/clock/index.ts';
import type { RuntimeConfig } from '../../../../shared/discovery/index.ts';
import { ResponseAssembler } from '../../../../shared/pipeline/answer/response-assembler.ts';
import { planSplit } from '../../../../shared/pipeline/answer/text-split.ts';
import type { FinishReason, GenerationRequest, GenerationSink, Usage } from '../../../../shared/protocol/index.ts';
import type { LoadedModel, Tokenizer } from '../../../../shared/tokens/index.ts';
import { EventSink, type GenerationEvent } from '../../../support/generation-events.ts';
import { idleMeter, letterModel, model, request } from '../fixtures.ts';

/** A character an id, its code; the end token is 0. These markers are one special token each. */
const SPECIAL = new Map([
  ['<|call|>', 0x10000],
  ['<|channel|>', 0x10001],
]);
const SPECIAL_TEXTS = new Map([...SPECIAL].map(([text, id]) => [id, text]));

const textOf = (id: number, skips: boolean): string => {
  if (id === 0) return '';
  const special = SPECIAL_TEXTS.get(id);
  return special === undefined ? String.fromCharCode(id) : skips ? '' : special;
};

const tokenizer: Tokenizer = {
  vocabSize: 0x10010,
  encode: (text) => Uint32Array.from(idsOf(text)),
  decode: (ids) => Array.from(ids, (id) => textOf(id, false)).join(''),
  createDetokenizer: (_prompt, { skipSpecialTokens } = {}) => ({
    push: (id) => textOf(id, skipSpecialTokens ?? true),
    flush: () => '',
  }),
  tokenBytes: (id) => new TextEncoder().encode(textOf(id, false)),
  isSpecial: (id) => id === 0 || SPECIAL_TEXTS.has(id),
  tokenToId: (text) => SPECIAL.get(text) ?? (text.length === 1 ? text.charCodeAt(0) : undefined),
  idToToken: (id) => textOf(id, false),
};
const LOADED: LoadedModel = { ...letterModel, tokenizer };

function idsOf(text: string): number[] {
  const pieces = text.split(/(<\|call\|>|<\|channel\|>)/);
  return pieces.flatMap((piece) => SPECIAL.get(piece) ?? Array.from(piece, (letter) => letter.charCodeAt(0)));
}

const TOOLS = [{ type: 'function' as const, function: { name: 'f', parameters: { type: 'object' } } }];
const READS_BOTH: RuntimeConfig = { reasoning_parser: 'qwen3', tool_call_parser: 'hermes' };

interface Folded {
  content: string;
  reasoning: string;
  readonly calls: { readonly name: string; arguments: string }[];
  reason: FinishReason | null | undefined;
  readonly order: string[];
}

/** Puts an answer together, choice by choice, and notes what came in which order. */
class FoldingSink extends EventSink implements GenerationSink {
  readonly choices: Folded[] = [];
  usage: Usage | undefined;

  text(choice: number, text: string): void {
    if (text !== '') this.#at(choice, 'content').content += text;
  }

  event(event: GenerationEvent): void {
    if (event.kind === 'reasoning') this.#at(event.choice, 'reasoning').reasoning += event.text;
    else if (event.kind === 'tool-call') {
      this.#at(event.choice, `call ${event.index}`).calls.push({ name: event.name, arguments: '' });
    } else if (event.kind === 'tool-arguments') {
      this.#at(event.choice, `call ${event.index}`).calls[event.index]!.arguments += event.text; // told before
    } else if (event.kind === 'finish') {
      this.text(event.choice, event.text);
      this.#at(event.choice, 'finish').reason = event.reason;
    }
  }

  end(usage: Usage): void {
    this.usage = usage;
  }

  fail(error: Error): void {
    throw error;
  }

  isBlocked = (): boolean => false;
  onUnblocked(): void {}

  #at(choice: number, what: string): Folded {
    this.choices[choice] ??= { content: '', reasoning: '', calls: [], reason: undefined, order: [] };
    const folded = this.choices[choice]!; // just opened
    if (folded.order.at(-1) !== what) folded.order.push(what);
    return folded;
  }
}

function open(runtime_config: RuntimeConfig, more: Partial<GenerationRequest> = {}, formattedPrompt = 'hi') {
  const asked = request({
    prompt: { kind: 'chat', messages: [{ role: 'user', content: 'hi' }], tools: TOOLS },
    ...more,
  });
  const card = { ...model().card, runtime_config };
  const plan = planSplit({ request: asked, card, tokenizer, formattedPrompt, random: seededRandom(1) });
  const sink = new FoldingSink();
  const engineRequest = {
    id: 'r1',
    model: 'letters',
    input: { kind: 'tokens' as const, tokenIds: Uint32Array.of(1) },
    stop: asked.stop,
    sampling: {},
    output: asked.output,
    eosTokenIds: [0],
    routing: {},
    annotations: [],
    mdcSum: 'sum',
  };
  const prompt = { request: engineRequest, promptTokens: 1, formattedPrompt };
  return { plan, sink, answer: new ResponseAssembler(asked, prompt, LOADED, sink, idleMeter, plan) };
}

type Opened = ReturnType<typeof open>;

function play({ answer }: Opened, text: string, sizes: readonly number[], choice = 0): void {
  const ids = idsOf(text);
  for (let at = 0, turn = 0; at < ids.length; turn++) {
    const count = Math.min(sizes[turn % sizes.length]!, ids.length - at); // never empty
    answer.tokens(choice, ids, at, count);
    at += count;
  }
}

function finish({ answer }: Opened, reason: 'stop' | 'length' = 'stop', choice = 0): void {
  answer.output({ index: choice, token_ids: [], finish_reason: reason });
}

function answerTo(text: string, runtime: RuntimeConfig, more: Partial<GenerationRequest> = {}): Folded {
  const opened = open(runtime, more);
  play(opened, text, [text.length]);
  finish(opened);
  opened.answer.end();
  return opened.sink.choices[0]!; // just finished
}

const CALL = '<tool_call>{"name": "f", "arguments": {"x": "</tool_call>"}}</tool_call>';

describe('the text of a chat', () => {
  it('is reasoning first, then content, then calls', () => {
    expect(answerTo(`<think>why</think>so ${CALL}`, READS_BOTH)).toEqual({
      content: 'so ',
      reasoning: 'why',
      calls: [{ name: 'f', arguments: '{"x": "</tool_call>"}' }],
      reason: 'tool_calls',
      order: ['reasoning', 'content', 'call 0', 'finish'],
    });
  });

  it('ends reasoning at a call that the model writes for nothing else', () => {
    const { reasoning, content, calls, reason } = answerTo(`<think>so ${CALL}`, READS_BOTH);
    expect({ reasoning, content, reason }).toEqual({ reasoning: 'so ', content: '', reason: 'tool_calls' });
    expect(calls).toHaveLength(1);
  });

  it('is all content for a model without parsers, and for a completion', () => {
    const asked = request({ prompt: { kind: 'raw', text: 'x' } });
    const card = { ...model().card, runtime_config: READS_BOTH };
    const input = { tokenizer, formattedPrompt: 'x', random: seededRandom(1) };
    expect(planSplit({ ...input, request: asked, card })).toBeUndefined();
    expect(answerTo(`<think>why</think>${CALL}`, {})).toMatchObject({ content: `<think>why</think>${CALL}` });
  });

  it('is not searched for calls when the client wants none', () => {
    const prompt = { kind: 'chat' as const, messages: [], tools: TOOLS, toolChoice: 'none' as const };
    expect(answerTo(CALL, READS_BOTH, { prompt })).toMatchObject({ content: CALL, calls: [], reason: 'stop' });
  });

  it('begins inside reasoning when the prompt ends with its opener', () => {
    const opened = open(READS_BOTH, {}, 'hi<think>\n');
    play(opened, 'why</think>so', [3]);
    finish(opened);
    expect(opened.sink.choices[0]).toMatchObject({ reasoning: 'why', content: 'so' });
  });

  it('keeps the finish reason of a call that is cut', () => {
    const opened = open(READS_BOTH);
    play(opened, '<tool_call>{"name": "f", "arguments": {"x": 1', [5]);
    finish(opened, 'length');
    expect(opened.sink.choices[0]).toMatchObject({ calls: [{ name: 'f', arguments: '{"x": 1' }], reason: 'length' });
  });

  it('ends at a stop string, whatever part it stands in', () => {
    const stop = { stop: ['END'] };
    expect(answerTo('<think>a END b</think>c', READS_BOTH, { stop })).toMatchObject({ reasoning: 'a ', content: '' });
    expect(answerTo(`${CALL} END y`, READS_BOTH, { stop })).toMatchObject({ content: '', reason: 'tool_calls' });
  });

  it('counts whole outputs that hold reasoning', () => {
    const opened = open(READS_BOTH);
    play(opened, '<think>why</think>so', [7, 13]); // the opener alone, then an output with both
    play(opened, '!', [1]);
    finish(opened);
    opened.answer.end();
    expect(opened.sink.usage).toMatchObject({ completionTokens: 21, reasoningTokens: 13 });
  });

  it('is read choice by choice', () => {
    const opened = open(READS_BOTH, { sampling: { n: 2 } });
    play(opened, '<think>a', [4], 0);
    play(opened, `x${CALL}`, [9], 1);
    play(opened, 'b</think>c', [2], 0);
    finish(opened, 'stop', 1);
    finish(opened, 'length', 0);
    expect(opened.sink.choices).toMatchObject([
      { reasoning: 'ab', content: 'c', calls: [], reason: 'length' },
      { reasoning: '', content: 'x', calls: [{ name: 'f' }], reason: 'tool_calls' },
    ]);
  });

  it('gives the same answer however it is cut into outputs', () => {
    const piece = fc.constantFrom(
      '<think>',
      '</think>',
      CALL,
      '<tool_call>',
      '</tool_call>',
      '{"a":1}',
      'so ',
      '<',
      '\n',
    );
    fc.assert(
      fc.property(
        fc.array(piece, { maxLength: 6 }),
        fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 5 }),
        (pieces, sizes) => {
          const text = pieces.join('');
          const whole = open(READS_BOTH);
          const cut = open(READS_BOTH);
          play(whole, text, [Math.max(text.length, 1)]);
          play(cut, text, sizes);
          for (const opened of [whole, cut]) finish(opened);
          expect(cut.sink.choices).toEqual(whole.sink.choices);
        },
      ),
    );
  });
});

describe('special tokens', () => {
  const HARMONY: RuntimeConfig = { tool_call_parser: 'harmony', reasoning_parser: 'gpt_oss' };

  it('are decoded when they are markers, unless the client says otherwise', () => {
    expect(open(HARMONY).plan?.keepsSpecialTokens).toBe(true);
    expect(open(READS_BOTH).plan?.keepsSpecialTokens).toBe(false);
    const { content } = answerTo('a<|channel|>b', HARMONY, { output: { skip_special_tokens: true } });
    expect(content).toBe('ab');
  });

  it('that end a call are shown to its parser although they end the text', () => {
    const stop = { stop_token_ids_hidden: [SPECIAL.get('<|call|>')!] }; // defined above
    const opened = open(HARMONY, { stop });
    expect(opened.plan?.visibleEndIds).toEqual([SPECIAL.get('<|call|>')]);
    play(opened, '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"x":1}<|call|>', [80]);
    finish(opened);
    expect(opened.sink.choices[0]).toMatchObject({
      content: '',
      calls: [{ name: 'f', arguments: '{"x":1}' }],
      reason: 'tool_calls',
    });
  });
});

describe('a parser that this server does not have', () => {
  it('is named in the error, which no retry mends', () => {
    const refusal = (name: string) =>
      expect.objectContaining({ code: 'not_implemented', status: 501, message: expect.stringContaining(`'${name}'`) });
    expect(() => open({ tool_call_parser: 'typescript' })).toThrow(refusal('typescript'));
    expect(() => open({ tool_call_parser: 'unheard-of' })).toThrow(refusal('unheard-of'));
  });
});

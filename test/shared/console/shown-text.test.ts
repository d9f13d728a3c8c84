import { describe, expect, it } from 'vitest';
import { PROMPT_MAX } from '../../../shared/console/shown-prompt.ts';
import { ANSWER_MAX } from '../../../shared/console/shown-text.ts';
import { TEXTS_MAX } from '../../../shared/console/shown-texts.ts';
import type { GenerationRequest, GenerationSink, PromptInput } from '../../../shared/protocol/index.ts';
import { openConsoleBed } from '../../support/console-bed.ts';
import { heldBytes } from '../../support/held-bytes.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const chat = (...contents: readonly unknown[]): PromptInput => ({
  kind: 'chat',
  messages: contents.map((content) => ({ role: 'user', content: content as string })),
});

/** Receives an answer. A sink that shows it passes everything on. */
function recorder() {
  const heard: unknown[] = [];
  const hear =
    (name: string) =>
    (...args: readonly unknown[]): void =>
      void heard.push([name, ...args]);
  const names = ['text', 'delta', 'finish', 'reasoning', 'toolCall', 'toolArguments', 'body', 'end'] as const;
  return { heard, sink: Object.fromEntries(names.map((name) => [name, hear(name)])) as unknown as GenerationSink };
}

function bed(showsPrompts = true) {
  const { console } = openConsoleBed(new VirtualClock(), 2000, { showsPrompts });
  const begin = () => {
    const trace = console.log.began({ endpoint: 'chat', xRequestId: 'x', key: undefined, receivedMs: 0 });
    const ask = (prompt: PromptInput, body?: Readonly<Record<string, unknown>>) => {
      const { heard, sink } = recorder();
      return { heard, client: sink, sink: trace.shown({ prompt, body } as GenerationRequest, sink) };
    };
    return { ask, trace };
  };
  const textOf = (number = 0) => console.log.textOf(console.log.find(String(number))!);
  return { begin, textOf };
}

const said = (text: string) => ({ role: 'user', text, is_cut: false });

describe('the texts that the console keeps of a request', () => {
  it('exist only if a setting asks for them', () => {
    const { begin, textOf } = bed(false);
    const { client, sink } = begin().ask(chat('Hello'));
    expect(sink).toBe(client);
    expect(textOf()).toEqual({ text: null, no_text: expect.stringContaining('--console-show-prompts') });
  });

  it('are the messages and the answer, which goes on to the client as it is', () => {
    const { begin, textOf } = bed();
    const picture = { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } };
    const { sink, heard } = begin().ask(chat('Hello', [{ type: 'text', text: 'Look: ' }, picture]));
    sink.reasoning(0, 'Hm. ');
    sink.text(0, 'A ', 1);
    sink.delta({ choice: 0, text: 'cat', tokenIds: [] });
    sink.toolCall(0, 0, 'call-1', 'name_it');
    sink.toolArguments(0, 0, '{"name": "Tom"}');
    sink.finish({ choice: 0, text: '.', tokenIds: [], reason: 'stop' });
    expect(heard.map((each) => (each as readonly unknown[])[0])).toEqual([
      'reasoning',
      'text',
      'delta',
      'toolCall',
      'toolArguments',
      'finish',
    ]);
    expect(textOf().text).toEqual({
      prompts: 1,
      prompt: [said('Hello'), said('Look: [image_url]')],
      left_out: 0,
      answers: [
        { choice: 0, text: 'A cat.', reasoning: 'Hm. ', calls: [{ name: 'name_it', arguments: '{"name": "Tom"}' }] },
      ],
      is_cut: false,
    });
  });

  it('are the latest part of a long prompt and the beginning of long answers', () => {
    const { begin, textOf } = bed();
    const long = 'x'.repeat(PROMPT_MAX);
    const { sink } = begin().ask(chat('first', long, 'last'));
    sink.text(0, long.slice(0, ANSWER_MAX - 100), 1);
    sink.text(1, long, 1);
    sink.text(2, 'late', 1);
    const { text } = textOf();
    expect(text?.prompt.map((part) => [part.text.length, part.is_cut])).toEqual([
      [PROMPT_MAX - 4, true],
      [4, false],
    ]);
    expect(text?.left_out).toBe(1);
    expect(text?.is_cut).toBe(true);
    expect(text?.answers.map((answer) => answer.text.length)).toEqual([ANSWER_MAX - 100, 100 - 32]);
  });

  it('have a bound for calls of tools and choices without text, too', () => {
    const { begin, textOf } = bed();
    const { sink } = begin().ask(chat('x'));
    for (let at = 0; at < 100_000; at++) sink.toolCall(at % 3, at, 'id', '');
    const calls = textOf().text?.answers.flatMap((answer) => answer.calls) ?? [];
    expect(calls.length).toBeLessThan(ANSWER_MAX / 10);
    expect(textOf().text?.is_cut).toBe(true);
  });

  it('take no memory for the pieces that they came in', () => {
    const { begin, textOf } = bed();
    const before = heldBytes();
    const requests = 150;
    for (let each = 0; each < requests; each++) {
      const { client, sink } = begin().ask(chat('x'));
      Object.assign(client, { text: () => {} });
      for (let at = 0; at < ANSWER_MAX; at++) sink.text(0, String.fromCharCode(0x4e00 + at), 1);
    }
    // 460,000 if pieces stay; beside other suites, the heap grows by some megabytes of theirs
    expect((heldBytes() - before) / requests).toBeLessThan(20 * ANSWER_MAX);
    const written = Array.from({ length: ANSWER_MAX - 16 }, (_, at) => String.fromCharCode(0x4e00 + at)).join('');
    expect(textOf().text?.answers[0]?.text).toBe(written);
  });

  it('are taken from bodies of any shape', () => {
    const { begin, textOf } = bed();
    const odd = { toString: 1, valueOf: 1 };
    const messages = [{ role: odd, content: [{ type: odd }], tool_calls: [{ function: { name: odd } }] }];
    begin().ask({ kind: 'body' }, { messages });
    expect(textOf().text?.prompt).toEqual([{ role: 'unknown', text: '[unknown][calls unknown] ', is_cut: false }]);
  });

  it('are those of every kind of prompt', () => {
    const { begin, textOf } = bed();
    const shownOf = (prompt: PromptInput, body?: Readonly<Record<string, unknown>>) => {
      const { ask, trace } = begin();
      ask(prompt, body);
      trace.ended({ status: 200, error: undefined, totalMs: 1 } as Parameters<typeof trace.ended>[0]);
      return textOf(next++).text?.prompt;
    };
    let next = 0;
    expect(shownOf({ kind: 'raw', text: 'Once' })).toEqual([{ role: 'prompt', text: 'Once', is_cut: false }]);
    expect(shownOf({ kind: 'tokens', tokenIds: [1, 2] })?.[0]?.text).toBe('1 2');
    expect(shownOf({ kind: 'embeds', data: 'AAAA' })?.[0]).toEqual({ role: 'embeds', text: '', is_cut: false });
    expect(shownOf({ kind: 'body' }, { messages: [{ role: 'user', content: 'Hi' }] })).toEqual([said('Hi')]);
    expect(shownOf({ kind: 'body' }, { input: 'A word' })?.[0]?.text).toBe('A word');
    const calls = [{ function: { name: 'look', arguments: '{}' } }];
    expect(
      shownOf({ kind: 'chat', messages: [{ role: 'assistant', content: null, tool_calls: calls }] })?.[0]?.text,
    ).toBe('[calls look] {}');
  });

  it('are those of a body that a worker wrote', () => {
    const { begin, textOf } = bed();
    const { sink } = begin().ask({ kind: 'body' }, {});
    sink.body({ choices: [{ index: 0, delta: { content: 'Hel' } }] });
    sink.body({
      choices: [
        { index: 0, delta: { content: 'lo', reasoning_content: 'Hm' } },
        { index: 1, text: 'Hi' },
      ],
    });
    sink.body('no object');
    const answers = textOf().text?.answers.map(({ text, reasoning }) => [text, reasoning]);
    expect(answers).toEqual([
      ['Hello', 'Hm'],
      ['Hi', ''],
    ]);
  });

  it('are those of the first prompt of a batch', () => {
    const { begin, textOf } = bed();
    const { ask } = begin();
    const sinks = ['one', 'two', 'three'].map((text) => ask({ kind: 'raw', text }).sink);
    for (const [at, sink] of sinks.entries()) sink.text(0, `answer ${at}`, 1);
    expect(textOf().text).toMatchObject({ prompts: 3, prompt: [{ text: 'one' }], answers: [{ text: 'answer 0' }] });
  });

  it('leave for those of later requests', () => {
    const { begin, textOf } = bed();
    for (let at = 0; at <= TEXTS_MAX; at++) begin().ask(chat(String(at)));
    expect(textOf(0)).toEqual({ text: null, no_text: expect.stringContaining('others came since') });
    expect(textOf(1).text?.prompt).toEqual([said('1')]);
  });
});

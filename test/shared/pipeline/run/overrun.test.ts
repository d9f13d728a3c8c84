import { describe, expect, it } from 'vitest';
import { workerError } from '../../../../shared/errors/index.ts';
import type { GenerationEvent } from '../../../support/generation-events.ts';
import { finish, say, start } from './start-run.ts';

const lost = () => workerError('Disconnected', 'socket closed');
const finishes = (events: readonly GenerationEvent[]) => events.filter(({ kind }) => kind === 'finish');

describe('a worker that makes more tokens than were asked for', () => {
  it('is cut at the last of them and stopped, and named', async () => {
    const { plane, sink, overran } = start({ stop: { max_tokens: 4 } });
    const call = await plane.seen(1);
    say(call, 'ab');
    say(call, 'cdefgh');
    say(call, 'more');
    expect(sink.shown).toBe('abcd');
    expect(sink.finished).toMatchObject({ text: 'cd', reason: 'length' });
    expect(sink.ended).toEqual({ usage: { promptTokens: 3, completionTokens: 4 }, finished: true });
    expect(call.log).toContain('stop');
    expect(overran).toEqual(['a']);
  });

  it('is cut at the end of the context when no number was asked for', async () => {
    const { plane, sink } = start();
    const call = await plane.seen(1);
    say(call, 'x'.repeat(100_000));
    expect(sink.shown).toBe('x'.repeat(97)); // of 100, the prompt has 3
    expect(sink.finished).toMatchObject({ reason: 'length' });
  });

  it('is cut when the tokens come with their end, their log probabilities or their usage', async () => {
    const { plane, sink } = start({ stop: { max_tokens: 2 }, output: { logprobs: 1 } });
    const call = await plane.seen(1);
    const top_logprobs = Array(5).fill([1, 2, 3, 4, 5].map((token_id) => ({ rank: 1, token_id, logprob: -1 })));
    call.sink.output({
      token_ids: [1, 2, 3, 4, 5],
      log_probs: [-1, -2, -3, -4, -5, -6, -7],
      top_logprobs,
      finish_reason: 'stop',
      completion_usage: { prompt_tokens: 3, completion_tokens: 5 },
    });
    call.sink.end();
    expect(sink.finished).toMatchObject({ text: 'ab', reason: 'length', tokenIds: [] });
    const [shown] = finishes(sink.events);
    const logprobs = shown?.kind === 'finish' ? shown.logprobs : undefined;
    expect(logprobs?.map(({ logprob }) => logprob)).toEqual([-1, -2]);
    expect(logprobs?.map(({ top }) => top.length)).toEqual([2, 2]); // one asked for, and the sampled token
    expect(sink.ended?.usage).toMatchObject({ completionTokens: 2 });
  });

  it('may say why it ended when it made exactly as many', async () => {
    const { plane, sink, overran } = start({ stop: { max_tokens: 4 } });
    const call = await plane.seen(1);
    say(call, 'abcd');
    finish(call, 'stop');
    expect(sink.finished).toMatchObject({ reason: 'stop' });
    expect(overran).toEqual([]);
  });

  it('is held to what is left after the tokens of the worker before', async () => {
    const { plane, sink, overran } = start({ stop: { max_tokens: 5 } });
    const first = await plane.seen(1);
    say(first, 'abc');
    first.sink.fail(lost());
    const second = await plane.seen(2);
    say(second, 'defgh');
    expect(sink.shown).toBe('abcde');
    expect(sink.ended?.usage.completionTokens).toBe(5);
    expect(overran).toHaveLength(1);
  });

  it('is cut for each of several choices, and stopped with the last one', async () => {
    const { plane, sink } = start({ stop: { max_tokens: 2 }, sampling: { n: 2 } });
    const call = await plane.seen(1);
    say(call, 'abc', 1);
    say(call, 'de', 1);
    expect(sink.ended).toBeUndefined();
    say(call, 'abc', 0);
    expect(finishes(sink.events)).toMatchObject([
      { choice: 1, text: 'ab', reason: 'length' },
      { choice: 0, text: 'ab', reason: 'length' },
    ]);
    expect(sink.ended?.usage.completionTokens).toBe(4);
    expect(call.log).toContain('stop');
  });

  it('is cut in text of its own by its tokens', async () => {
    const { plane, sink } = start({ stop: { max_tokens: 3 } });
    const call = await plane.seen(1);
    call.sink.output({ text: 'ab', token_ids: [1, 2] });
    call.sink.output({ text: 'cdef', token_ids: [3, 4, 5, 6] });
    expect(sink.shown).toBe('abc');
    expect(sink.finished).toMatchObject({ reason: 'length' });
    expect(sink.ended?.usage.completionTokens).toBe(3);
  });

  it('is cut in text without tokens, at twice as many and a few, because their number is unknown', async () => {
    const { plane, sink } = start({ stop: { max_tokens: 10 } });
    const call = await plane.seen(1);
    call.sink.output({ text: 'x'.repeat(1_000_000) });
    expect(sink.shown.length).toBeLessThan(300); // estimated at three bytes a token
    expect(sink.finished).toMatchObject({ reason: 'length' });
  });
});

describe('a worker that sends output that no request asked for', () => {
  it.each([
    ['a choice', { choices: [{ index: 1, delta: { content: 'a' } }] }],
    ['a choice of a whole body', { choices: [{ index: 4_000_000_000, message: { content: 'a' } }] }],
    ['more choices', { choices: [{ index: 0 }, { index: 0 }] }],
    ['a choice with no number', { choices: [{ index: 'x' }] }],
    ['a tool call', { choices: [{ index: 0, delta: { tool_calls: [{ index: 2_000_000_000 }] } }] }],
  ])('fails its request: %s', async (_what, body) => {
    const { plane, sink } = start({ prompt: { kind: 'chat', messages: [] } });
    (await plane.seen(1)).sink.output({ body });
    expect(sink.failure).toMatchObject({ code: 'bad_worker_response' });
  });
});
